import { parseHostPattern, parsePinAddress, presetNames, presetOf } from '../../shared/hosts.ts'

const isAmount = (text: string) => /^\d+(\.\d+)?$/.test(text) && Number(text) > 0

export function troubleWithAmount(text: string, what: string): string | null {
  return text.trim() === '' || isAmount(text.trim()) ? null : `Give a number of ${what}.`
}

export function troubleWithCount(text: string, what: string): string | null {
  const isWhole = isAmount(text.trim()) && Number.isInteger(Number(text))
  return text.trim() === '' || isWhole ? null : `Give a whole number of ${what}.`
}

export function troubleWithHosts(hosts: readonly string[]): string | null {
  for (const text of hosts) {
    if (presetOf(text) !== null) continue
    if (text.startsWith('@'))
      return `${text} is no preset. There are ${presetNames.map((name) => `@${name}`).join(', ')}.`
    const [name = '', ...address] = text.split('=')
    const pattern = parseHostPattern(name)
    if (name.trim() === '*') return '* is every host: choose the mode open for that.'
    if (pattern === undefined)
      return `${text} is no host. Write example.com, example.com:443 or *.example.org.`
    if (address.length === 0) continue
    if (pattern.host.startsWith('*') || parsePinAddress(address.join('=')) === undefined)
      return `${text}: after = comes a numeric address with its port, as in db.test:5432=127.0.0.1:5432.`
  }
  return null
}
