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
  // Against the index git compares every path with every entry: minutes in a large repository. By rules alone
  // first, and the index only if something is left to ask it about.
  const where = top === null ? { cwd: base, gitDir: ownGitDir } : { cwd: top }
  const workTree = top === null ? ['--work-tree', base] : []
  const result = await tryGit([...workTree, 'check-ignore', '--no-index', '-z', '--stdin'], {
    ...where,
    input,
  })
  // 1: none is ignored. 128: no readable repository, so nothing is known to be ignored.
  const named = fromBytes(result.stdout)
    .split('\0')
    .filter((path) => path !== '')
  if (named.length === 0) return new Set()
  const tracked = new Set(
    top === null ? [] : fromBytes((await tryGit(['ls-files', '-z'], where)).stdout).split('\0'),
  )
  const cut = prefix === '' ? 0 : prefix.length + 1
  return new Set(named.filter((path) => !tracked.has(path)).map((path) => path.slice(cut) as BytePath))
}

async function enclosingRepository(start: string): Promise<string | null> {
  for (let folder = start; ; folder = dirname(folder)) {
    const found = await lstat(join(folder, '.git')).catch(() => null)
    if (found !== null) return folder
    if (folder === dirname(folder)) return null
  }
}
