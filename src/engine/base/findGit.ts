import { lstat, readFile, realpath, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { readSmallFile } from './files.ts'

/** How one folder belongs to a git repository, found without running git or reading any configuration. */
export type GitPlace = {
  /** Where `.git` was found: the top of the checkout (or the bare repository itself). */
  readonly top: string
  /** This checkout's own git folder; differs from `commonDir` in a linked worktree. */
  readonly gitDir: string
  /** Real path of the repository that all its worktrees share. */
  readonly commonDir: string
  /** `.git` is a file or link that names a folder elsewhere (a linked worktree or a submodule). */
  readonly linked: boolean
  /** A linked checkout whose git folder points back at it: nobody can claim a repository that is not theirs. */
  readonly confirmed: boolean
}

export async function findGit(folder: string): Promise<GitPlace | null> {
  for (let top = folder; ; top = dirname(top)) {
    const place = (await readDotGit(top)) ?? (await readBare(top))
    if (place !== null) return place
    if (top === dirname(top)) return null
  }
}

async function readDotGit(top: string): Promise<GitPlace | null> {
  const path = join(top, '.git')
  const info = await stat(path).catch(() => null)
  if (info === null) return null
  if (info.isDirectory()) {
    if (!(await looksLikeGit(path))) return null
    const real = await realpath(path)
    const commonDir = await commonDirOf(real)
    // A link, or a `commondir`, names a repository as a `.git` file does, and nothing there says that it may.
    const linked = commonDir !== real || (await lstat(path)).isSymbolicLink()
    return { top, gitDir: real, commonDir, linked, confirmed: !linked }
  }
  if (!info.isFile() || info.size > 4096) return null
  const named = /^gitdir: (.+?)\n*$/s.exec(await readFile(path, 'utf8'))?.[1]
  if (named === undefined) return null
  const gitDir = await realpath(resolve(top, named)).catch(() => null)
  if (gitDir === null) return null
  const commonDir = await commonDirOf(gitDir)
  if (!(await looksLikeGit(commonDir))) return null
  return { top, gitDir, commonDir, linked: true, confirmed: await pointsBack(gitDir, commonDir, top) }
}

async function readBare(top: string): Promise<GitPlace | null> {
  if (!(await looksLikeGit(top))) return null
  return { top, gitDir: top, commonDir: top, linked: false, confirmed: true }
}

async function commonDirOf(gitDir: string): Promise<string> {
  const named = await readFile(join(gitDir, 'commondir'), 'utf8').catch(() => null)
  if (named === null) return gitDir
  return realpath(resolve(gitDir, named.replace(/\n+$/, ''))).catch(() => gitDir)
}

export async function looksLikeGit(path: string): Promise<boolean> {
  const [head, objects, refs] = await Promise.all(
    ['HEAD', 'objects', 'refs'].map((name) => stat(join(path, name)).catch(() => null)),
  )
  return head?.isFile() === true && objects?.isDirectory() === true && refs?.isDirectory() === true
}

// A hostile checkout could name any repository of the user in its `.git` file and so see it from inside.
// (escape: worktree-gitdir)
async function pointsBack(gitDir: string, commonDir: string, top: string): Promise<boolean> {
  // A folder of its own making could name both the repository and itself.
  if (gitDir === commonDir || dirname(gitDir) !== join(commonDir, 'worktrees')) return false
  const named = await readFile(join(gitDir, 'gitdir'), 'utf8').catch(() => null)
  if (named === null) return false
  const back = await realpath(dirname(resolve(gitDir, named.replace(/\n+$/, '')))).catch(() => null)
  return back === (await realpath(top))
}

/** The commit a checkout stands on, read without running git; null where it has none or keeps refs otherwise. */
export async function headCommit({ gitDir, commonDir }: GitPlace): Promise<string | null> {
  let value = readLine(join(gitDir, 'HEAD'))
  for (let depth = 0; depth < 5 && value?.startsWith('ref: refs/') === true; depth += 1) {
    const ref = value.slice('ref: '.length)
    if (ref.includes('..')) return null
    value = readLine(join(commonDir, ref)) ?? (await packedRef(commonDir, ref))
  }
  return value !== null && commitPattern.test(value) ? value : null
}

const commitPattern = /^([0-9a-f]{40}|[0-9a-f]{64})$/

function readLine(path: string): string | null {
  const text = readSmallFile(path)
  return text === null ? null : text.replace(/\n[^]*$/, '')
}

async function packedRef(commonDir: string, ref: string): Promise<string | null> {
  const text = await readFile(join(commonDir, 'packed-refs'), 'utf8').catch(() => '')
  return (
    text
      .split('\n')
      .find((line) => line.endsWith(` ${ref}`))
      ?.split(' ')[0] ?? null
  )
}
