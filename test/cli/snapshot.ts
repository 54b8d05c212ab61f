import { createHash } from 'node:crypto'
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'

/** Every entry below a folder with its kind, mode and content, so that two moments can be compared. */
export function snapshot(root: string): Record<string, string> {
  const entries: Record<string, string> = {}
  const visit = (path: string, name: string) => {
    const stat = lstatSync(path)
    const mode = (stat.mode & 0o7777).toString(8)
    if (stat.isDirectory()) {
      entries[`${name}/`] = mode
      for (const child of readdirSync(path).sort()) visit(join(path, child), `${name}/${child}`)
    } else if (stat.isSymbolicLink()) entries[name] = `link ${readlinkSync(path)}`
    else entries[name] = `${mode} ${createHash('sha256').update(readFileSync(path)).digest('hex')}`
  }
  visit(root, '')
  return entries
}
