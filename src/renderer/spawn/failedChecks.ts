import type { CheckResult } from '../../shared/doctor.ts'
import type { SpawnField } from './form.ts'

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
