import { createHash } from 'node:crypto'
import { nameOf, parentOf, type BytePath } from '../bytePath.ts'
import { contentOf } from '../capture/content.ts'
import type { DiskStat } from '../disk.ts'
import type { Side } from '../manifest.ts'
import type { Tree } from '../objects/tree.ts'

/**
 * What is another one as soon as anybody has written a file, also in place and with its old time put back: that
 * changes the ctime. So does a second name of ours; then the content has to tell.
 */
export function localIdentity(stat: DiskStat): string {
  return [stat.dev, stat.ino, stat.size, stat.mode, stat.mtimeNs, stat.ctimeNs].join(':')
}

/** Whether exactly this lies at a path, byte for byte. */
export async function isAt(tree: Tree, path: BytePath, side: Side | null): Promise<boolean> {
  const stat = await tree.lstat(path)
  if (stat === null || side === null) return stat === null && side === null
  if (side.kind === 'directory') return stat.isDirectory()
  if (side.kind === 'symlink') {
    if (!stat.isSymbolicLink()) return false
    const target = await tree.within(parentOf(path), (folder) => tree.disk.readlink(folder.at(nameOf(path))))
    return createHash('sha256').update(target).digest('hex') === side.sha256
  }
  if (side.kind !== 'file' || !stat.isFile() || Number(stat.size) !== side.size) return false
  const digest = createHash('sha256')
  for await (const chunk of contentOf(tree, path)) digest.update(chunk)
  return digest.digest('hex') === side.sha256
}

/** Whether what should come to a path has come: its bytes and, where nothing but the mode changes, its mode. */
export async function hasCome(
  tree: Tree,
  path: BytePath,
  { before, after }: { readonly before: Side | null; readonly after: Side | null },
): Promise<boolean> {
  if (!(await isAt(tree, path, after))) return false
  if (before?.kind !== 'file' || after?.kind !== 'file' || before.sha256 !== after.sha256) return true
  const mode = Number(((await tree.lstat(path))?.mode ?? 0n) & 0o777n)
  return mode !== (before.mode & 0o777) || mode === (after.mode & 0o777)
}
