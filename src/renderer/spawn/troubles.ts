import type { CheckResult } from '../../shared/doctor.ts'
import { parseHostPattern, parsePinAddress, presetNames, presetOf } from '../../shared/hosts.ts'
import type { SpawnField } from './form.ts'

const isAmount = (text: string) => /^\d+(\.\d+)?$/.test(text) && Number(text) > 0

export function troubleWithAmount(text: string, what: string): string | null {
  return text.trim() === '' || isAmount(text.trim()) ? null : `Give a number of ${what}.`
}

export function troubleWithHosts(hosts: readonly string[]): string | null {
  for (const text of hosts) {
    if (presetOf(text) !== null) continue
    if (text.startsWith('@'))
      return `${text} is no preset. There are ${presetNames.map((name) => `@${name}`).join(', ')}.`
    const [name = '', ...address] = text.split('=')
    const pattern = parseHostPattern(name)
    if (pattern === undefined)
      return `${text} is no host. Write example.com, example.com:443 or *.example.org.`
    if (address.length === 0) continue
    if (pattern.host.startsWith('*') || parsePinAddress(address.join('=')) === undefined)
      return `${text}: after = comes a numeric address with its port, as in db.test:5432=127.0.0.1:5432.`
  }
  return null
}

/** Checks about folders, by the names preflight gives them. */
const aboutFolders =
  /^(root|roots|data folder|own folder|system folder|mounts inside|git folder|config folder)\b/

/** The field a failed check is about; null where it is about none in particular. */
export function fieldOfCheck(check: CheckResult): SpawnField | null {
  if (aboutFolders.test(check.name)) return 'folder'
  if (/^(sandbox|level \d)/.test(check.name)) return 'level'
  return null
}

const sentence = (text: string) => (/[.!?]$/.test(text) ? text : `${text}.`)
const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)

/** A failed check in a sentence, without what the field shows anyway. */
export const checkSentence = ({ detail }: CheckResult): string => capital(sentence(detail))
