import { constants } from 'node:fs'
import { lstat, mkdir, open, readdir, readlink, realpath, stat, unlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import { writeFileAtomically } from '../../base/files.ts'
import { bytesOf } from './bytes.ts'

/** Writes the user's own file. Follows a link to the file itself, so that a dotfiles folder keeps its link. */
export async function writeUserConfig(file: string, text: string): Promise<void> {
  const target = await realpath(file).catch(() => file)
  const before = await stat(target).catch(() => null)
  await mkdir(dirname(target), { recursive: true })
  await removeLeftBehind(dirname(target), basename(target))
  const bytes = bytesOf(text)
  if (before === null) await writeFileAtomically(target, bytes, 0o600)
  else await writeFileAtomically(target, bytes, before.mode & 0o777, 'file and folder', before)
}

/**
 * Writes a project's file. An agent on the real files could put a link in its place, or in that of a folder above it, once
 * it has been read: so it is written in the very folder that was read, by its descriptor, and replaces what has the name
 * without following it. (escape: config-fifo)
 */
export async function writeProjectConfig(file: string, text: string): Promise<void> {
  const folder = dirname(file)
  const opened = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  try {
    const place = `/proc/self/fd/${opened.fd}`
    if ((await readlink(place)) !== folder) throw notOurs(folder, 'another folder is there by now')
    const target = join(place, basename(file))
    await removeLeftBehind(place, basename(file))
    const before = await lstat(target).catch(() => null)
    const bytes = bytesOf(text)
    if (before === null) return await writeFileAtomically(target, bytes, 0o644)
    if (!before.isFile()) throw notOurs(file, 'it is no regular file by now')
    await writeFileAtomically(target, bytes, before.mode & 0o777, 'file and folder', before)
  } catch (error) {
    // Who reads of it knows the folder by its name, not by our descriptor.
    if (error instanceof Error && 'path' in error) error.path = file
    throw error
  } finally {
    await opened.close()
  }
}

/** Longer than any write takes: one that is under way, be it by an Orangery with another config, is left alone. */
const leftBehindMs = 60_000

/** What a save that was killed left beside the file; nobody else comes to a project for it. */
async function removeLeftBehind(folder: string, name: string): Promise<void> {
  const names = await readdir(folder).catch((): string[] => [])
  const ours = names.filter(
    (each) => each.startsWith(`.${name}.`) && /^[0-9a-f]{12}\.tmp$/.test(each.slice(name.length + 2)),
  )
  for (const each of ours) {
    const path = join(folder, each)
    const found = await lstat(path).catch(() => null)
    const isOld = found !== null && Date.now() - found.mtimeMs > leftBehindMs
    if (isOld && found.isFile() && found.uid === process.getuid?.()) await unlink(path).catch(() => {})
  }
}

const notOurs = (path: string, why: string) =>
  new OrangeryError('config.replaced', `${path}: ${why}`, {
    kind: 'refused',
    hint: 'Put the file itself there; nothing is written through a link.',
  })
