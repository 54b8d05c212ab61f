import { ignoreFiles } from '../../base/markers.ts'
import { nameOf, type BytePath } from '../bytePath.ts'

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
    const text = content.toString('utf8')
    const parsed: unknown = JSON.parse(text)
    if (typeof parsed !== 'object' || parsed === null || hasTwiceNamed(text)) return null
    const { scripts = {} } = parsed as { scripts?: unknown }
    return JSON.stringify(scripts)
  } catch {
    return null
  }
}

/** Whether valid JSON has an object with a name twice: we take the last one, and another program the first. */
function hasTwiceNamed(json: string): boolean {
  const open: (Set<string> | null)[] = []
  for (const [token, name] of json.matchAll(/("(?:[^"\\]|\\.)*")\s*:|"(?:[^"\\]|\\.)*"|[{}[\]]/g)) {
    if (token === '{' || token === '[') open.push(token === '{' ? new Set() : null)
    if (token === '}' || token === ']') open.pop()
    if (name === undefined) continue
    const names = open.at(-1)
    const plain = String(JSON.parse(name))
    if (names?.has(plain) === true) return true
    names?.add(plain)
  }
  return false
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
  return isOfApply(path) || /(^|\/)\.agency(\/(SANDBOX_MARKER|INTEGRATION_MARKER))?$/.test(path)
}

export const isOfApply = (path: BytePath): boolean =>
  /(^|\/)\.orangery-apply-\d{14}-[0-9a-f]{4}-[0-9a-f]{8}(\/|$)/.test(path)

/** One of the ignore files that could show our markers to git. */
export function isIgnoreFile(path: BytePath): boolean {
  return ignoreFiles.includes(path)
}
