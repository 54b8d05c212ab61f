import { ignoreFiles } from '../base/markers.ts'
import { nameOf, type BytePath } from './bytePath.ts'

export function isPackageFile(path: BytePath): boolean {
  return nameOf(path).toLowerCase() === 'package.json'
}

/** Scripts run on install and by name; what cannot be read is treated as changed. */
export function hasChangedScripts(base: PackageContent, result: PackageContent): boolean {
  const before = scriptsOf(base)
  const after = scriptsOf(result)
  return before === null || after === null || before !== after
}
/** Null: there is none. A link, a folder or a file too large to look into is `unreadable`, not "no scripts". */
export type PackageContent = Buffer | 'unreadable' | null
function scriptsOf(content: PackageContent): string | null {
  if (content === null) return '{}'
  if (content === 'unreadable') return null
  try {
    const parsed: unknown = JSON.parse(content.toString('utf8'))
    if (typeof parsed !== 'object' || parsed === null) return null
    const { scripts = {} } = parsed as { scripts?: unknown }
    return JSON.stringify(scripts)
  } catch {
    return null
  }
}

/** The part of a path up to and with a `.git`, in any case; null when there is none. */
export function gitPartOf(path: BytePath): BytePath | null {
  const found = /(?:^|\/)\.git(?=\/|$)/i.exec(path)
  return found === null ? null : (path.slice(0, found.index + found[0].length) as BytePath)
}

/**
 * Our own markers, and the folder of an apply that is under way or was cut off: neither is in a review. An agent that
 * sweeps that folder away would otherwise do so on the host, where the old contents lie.
 */
export function isMarker(path: BytePath): boolean {
  if (/(^|\/)\.orangery-apply-\d{14}-[0-9a-f]{4}-[0-9a-f]{8}(\/|$)/.test(path)) return true
  return /(^|\/)\.agency(\/(SANDBOX_MARKER|INTEGRATION_MARKER))?$/.test(path)
}

/** One of the ignore files that could show our markers to git. */
export function isIgnoreFile(path: BytePath): boolean {
  return ignoreFiles.includes(path)
}
