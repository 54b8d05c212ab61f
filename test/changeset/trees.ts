import { createHash } from 'node:crypto'
import {
  chmodSync,
  constants,
  copyFileSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
} from 'node:fs'
import { join } from 'node:path'

/** What is read of a file that a program we started may take away meanwhile. */
function ifThere<T>(read: () => T): T | null {
  try {
    return read()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** A copy with modes and links as they are; without a process, since the fault suite makes hundreds of them. */
export function copyTree(from: string, to: string, leaveOut: ReadonlySet<string> = new Set()): void {
  mkdirSync(to, { recursive: true })
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    if (leaveOut.has(entry.name)) continue
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) copyTree(source, target, leaveOut)
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target)
    else if (entry.isFile()) ifThere(() => copyFileSync(source, target, constants.COPYFILE_FICLONE))
  }
  chmodSync(to, lstatSync(from).mode & 0o7777)
}

/** Every path below a folder with its kind, mode and content. */
export function pictureOf(folder: string, below = ''): string {
  const lines: string[] = []
  for (const name of readdirSync(folder).toSorted()) {
    const path = join(folder, name)
    const shown = `${below}${name}`
    const stat = lstatSync(path)
    const mode = (stat.mode & 0o7777).toString(8)
    if (stat.isDirectory()) lines.push(`${shown}/ ${mode}\n`, pictureOf(path, `${shown}/`))
    else if (stat.isSymbolicLink()) lines.push(`${shown} -> ${readlinkSync(path)}\n`)
    else lines.push(`${shown} ${mode} ${createHash('sha256').update(readFileSync(path)).digest('hex')}\n`)
  }
  return lines.join('')
}

/** The same as long as nobody has written anything below a folder. */
export function signOf(folder: string, leaveOut: ReadonlySet<string>): string {
  const lines: string[] = []
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (leaveOut.has(entry.name)) continue
    const path = join(folder, entry.name)
    const stat = ifThere(() => lstatSync(path, { bigint: true }))
    lines.push(`${entry.name} ${stat?.ino} ${stat?.ctimeNs}\n`)
    if (entry.isDirectory()) lines.push(signOf(path, leaveOut))
  }
  return lines.join('')
}
