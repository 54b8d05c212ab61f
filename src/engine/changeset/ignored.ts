import { lstat } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { tryGit } from '../base/git.ts'
import { fromBytes, fromText, joinPath, toBytes, type BytePath } from './bytePath.ts'

/**
 * Which paths the *base's* ignore files name: the agent's own version of them has no say, or it could hide its
 * work from "approve all". Tracked files are never ignored. Works without git, by the same rules.
 */
export async function ignoredPaths(
  base: string,
  ownGitDir: string,
  paths: readonly BytePath[],
): Promise<ReadonlySet<BytePath>> {
  if (paths.length === 0) return new Set()
  const top = await enclosingRepository(base)
  const prefix = top === null ? fromText('') : fromText(relative(top, base))
  const input = Buffer.concat(paths.flatMap((path) => [toBytes(joinPath(prefix, path)), Buffer.from([0])]))
  const call = top === null ? ['--work-tree', base, 'check-ignore', '--no-index'] : ['check-ignore']
  const result = await tryGit([...call, '-z', '--stdin'], {
    cwd: top ?? base,
    input,
    ...(top === null ? { gitDir: ownGitDir } : {}),
  })
  // 1: none is ignored. 128: no readable repository, so nothing is known to be ignored.
  const cut = prefix === '' ? 0 : prefix.length + 1
  const found = new Set<BytePath>()
  for (const line of fromBytes(result.stdout).split('\0'))
    if (line !== '') found.add(line.slice(cut) as BytePath)
  return found
}

async function enclosingRepository(start: string): Promise<string | null> {
  for (let folder = start; ; folder = dirname(folder)) {
    const found = await lstat(join(folder, '.git')).catch(() => null)
    if (found !== null) return folder
    if (folder === dirname(folder)) return null
  }
}
