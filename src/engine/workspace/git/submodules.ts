import { lstat, mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { git, quotedPath } from '../../base/git.ts'
import { openRepository, type Repository } from './repository.ts'
import { isFolder } from '../find/scan.ts'

type Link = { readonly path: string; readonly commit: string; readonly name: string | null }

export type FilledSubmodules = {
  readonly filled: readonly string[]
  /** Those whose commits are not on this machine; nothing is fetched for them. */
  readonly empty: readonly string[]
}

const depthLimit = 4

/**
 * Fills the submodules of a fresh checkout from what the user's repository has of them under `modules`. Each gets a
 * repository of its own in `gitDirs`, which borrows the user's objects: what is committed there reaches
 * nobody's, and nothing is fetched.
 */
export async function fillSubmodules(options: {
  readonly repository: Repository
  readonly tree: string
  readonly commit: string
  /** A folder of ours beside the tree. */
  readonly gitDirs: string
  readonly depth?: number
}): Promise<FilledSubmodules> {
  const { repository, tree, commit, gitDirs, depth = 0 } = options
  const filled: string[] = []
  const empty: string[] = []
  for (const link of await listSubmodules(repository, commit)) {
    const below = depth < depthLimit ? await fillOne(repository.commonDir, tree, gitDirs, link, depth) : null
    if (below === null) empty.push(link.path)
    else filled.push(link.path)
    for (const path of below?.filled ?? []) filled.push(`${link.path}/${path}`)
    for (const path of below?.empty ?? []) empty.push(`${link.path}/${path}`)
  }
  return { filled, empty }
}

async function fillOne(
  commonDir: string,
  tree: string,
  gitDirs: string,
  { path, commit, name }: Link,
  depth: number,
): Promise<FilledSubmodules | null> {
  if (name === null) return null
  const source = join(commonDir, 'modules', name)
  const [target, gitDir] = [join(tree, path), join(gitDirs, name)]
  if (!(await isFolder(join(source, 'objects'))) || !(await isFolder(target))) return null
  if ((await lstat(gitDir).catch(() => null)) !== null) return null
  const theirs = await openRepository(source)
  if ((await theirs.commit(commit)) === null) return null
  const format = await theirs.git(['rev-parse', '--show-object-format'])
  await mkdir(dirname(gitDir), { recursive: true, mode: 0o700 })
  await git(
    ['init', '-q', '--template=', `--object-format=${format}`, `--separate-git-dir=${gitDir}`, target],
    { cwd: tree },
  )
  await mkdir(join(gitDir, 'objects', 'info'), { recursive: true })
  const alternates = join(gitDir, 'objects', 'info', 'alternates')
  await writeFile(alternates, `${quotedPath(join(source, 'objects'))}\n`)
  // Its own submodules count as wanted, as they do where a person fetched them.
  await theirs.git(['config', `--file=${join(gitDir, 'config')}`, 'submodule.active', '.'])
  await theirs.git(['update-ref', '--no-deref', 'HEAD', commit], { cwd: target })
  await theirs.git(['reset', '-q', '--hard'], { cwd: target })
  const nested = {
    repository: theirs,
    tree: target,
    commit,
    gitDirs: join(gitDir, 'modules'),
    depth: depth + 1,
  }
  return fillSubmodules(nested)
}

/** Paths at which a commit has another repository. */
export async function listSubmodules(repository: Repository, commit: string): Promise<Link[]> {
  const modules = `${commit}:.gitmodules`
  if ((await repository.try(['cat-file', '-e', modules])).code !== 0) return []
  const named = await repository.try([
    'config',
    '-z',
    `--blob=${modules}`,
    '--get-regexp',
    '^submodule\\..+\\.path$',
  ])
  const names = new Map<string, string>()
  for (const entry of named.stdout.toString().split('\0')) {
    const [key = '', path = ''] = entry.split('\n')
    const name = key.slice('submodule.'.length, -'.path'.length)
    if (isPlainName(name)) names.set(path, name)
  }
  const entries = (await repository.git(['ls-tree', '-r', '-z', '--full-tree', commit])).split('\0')
  return entries.flatMap((entry) => {
    const match = /^160000 commit ([0-9a-f]+)\t([^]+)$/.exec(entry)
    const [, oid, path] = match ?? []
    return oid === undefined || path === undefined
      ? []
      : [{ path, commit: oid, name: names.get(path) ?? null }]
  })
}

// The name is the repository's word and becomes a path: `../../hooks` led git itself out of its folder.
function isPlainName(name: string): boolean {
  if (/[\p{Cc}\\]/u.test(name) || name.startsWith('-')) return false
  return name.split('/').every((part) => !['', '.', '..', '.git'].includes(part.toLowerCase()))
}
