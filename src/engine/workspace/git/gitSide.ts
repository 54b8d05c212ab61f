import { lstat, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { realFolder } from '../../base/paths.ts'
import { copyTree } from '../make/clone.ts'
import { removeTree } from '../end/removeTree.ts'
import type { Repository } from './repository.ts'

/** Git's own folders of the linked checkouts of a repository. */
async function adminFolders(commonDir: string): Promise<string[]> {
  const names = await readdir(join(commonDir, 'worktrees')).catch((): string[] => [])
  return names.map((name) => join(commonDir, 'worktrees', name))
}

const readText = (path: string): Promise<string> =>
  readFile(path, 'utf8').then(
    (text) => text.trim(),
    () => '',
  )

/** The file by which a checkout knows its repository, as git writes it down: by no link on the way. */
const realLink = (tree: string): string => join(realFolder(dirname(tree)), basename(tree), '.git')

/** The `.git` of each linked checkout, by the repository's own list. */
export async function linksOf(commonDir: string): Promise<string[]> {
  const folders = await adminFolders(commonDir)
  const named = await Promise.all(
    folders.map(async (folder) => ({ folder, link: await readText(join(folder, 'gitdir')) })),
  )
  return named.flatMap(({ folder, link }) => (link === '' ? [] : [resolve(folder, link)]))
}

/** Git's own folder of one checkout (HEAD, index, refs and whatever is unfinished there); null: git knows none. */
export async function adminOf(commonDir: string, tree: string): Promise<string | null> {
  const links = new Set([join(tree, '.git'), realLink(tree)])
  for (const folder of await adminFolders(commonDir)) {
    const named = await readText(join(folder, 'gitdir'))
    if (named !== '' && links.has(resolve(folder, named))) return folder
  }
  return null
}

/** The checkout that has a branch, or has it again when its rebase or bisect is over; null: none. */
export async function holderOf(
  commonDir: string,
  branch: string,
  except: string | null = null,
): Promise<string | null> {
  const full = `refs/heads/${branch}`
  for (const folder of [commonDir, ...(await adminFolders(commonDir))]) {
    if (folder === except) continue
    const [head, merging, applying, bisecting] = await Promise.all(
      ['HEAD', 'rebase-merge/head-name', 'rebase-apply/head-name', 'BISECT_START'].map((name) =>
        readText(join(folder, name)),
      ),
    )
    if (head !== `ref: ${full}` && merging !== full && applying !== full && bisecting !== branch) continue
    const link = await readText(join(folder, 'gitdir'))
    if (link !== '') return dirname(resolve(folder, link))
    return basename(folder) === '.git' ? dirname(folder) : folder
  }
  return null
}

const unfinishedWork: Readonly<Record<string, string>> = {
  'rebase-merge': 'a rebase',
  'rebase-apply': 'a rebase',
  MERGE_HEAD: 'a merge',
  CHERRY_PICK_HEAD: 'a cherry-pick',
  REVERT_HEAD: 'a revert',
  sequencer: 'a series of picks',
  BISECT_LOG: 'a bisect',
}

/** What somebody has begun in a checkout and not brought to its end, in words. */
export async function unfinishedIn(commonDir: string, tree: string): Promise<string[]> {
  const folder = await adminOf(commonDir, tree)
  if (folder === null) return []
  const found = new Set<string>()
  for (const [name, what] of Object.entries(unfinishedWork)) {
    if ((await lstat(join(folder, name)).catch(() => null)) !== null) found.add(`${what} in progress`)
  }
  return [...found]
}

/** Commits of the refs that a checkout has to itself, `refs/worktree/…` and those of a bisect. */
export async function ownRefCommits(repository: Repository, cwd: string): Promise<string[]> {
  const listed = await repository.try(
    [
      'for-each-ref',
      '--format=%(objecttype) %(objectname)',
      'refs/worktree',
      'refs/bisect',
      'refs/rewritten',
    ],
    { cwd },
  )
  return listed.stdout
    .toString()
    .split('\n')
    .flatMap((line) => (line.startsWith('commit ') ? [line.slice('commit '.length)] : []))
}

/** Copies git's side of a checkout; what was copied before is replaced only by a whole one. */
export async function keepGitSide(commonDir: string, tree: string, into: string): Promise<void> {
  const folder = await adminOf(commonDir, tree)
  if (folder === null) return
  const part = `${into}.part`
  await removeTree(part)
  await copyTree(folder, part, 'plain-copy')
  await removeTree(into)
  await rename(part, into)
}

const mostObjects = 2_000
const largestText = 4 * 1024 * 1024

/**
 * One commit that has as parents all that git's side of a checkout names and its branch does not hold: own refs,
 * what a rebase is made of, the way HEAD went. Without it a gc would take them while they are put away.
 */
export async function stateCommit(repository: Repository, tree: string, tip: string): Promise<string | null> {
  const folder = await adminOf(repository.commonDir, tree)
  if (folder === null) return null
  const names = new Set<string>()
  const pattern = new RegExp(`\\b[0-9a-f]{${tip.length}}\\b`, 'g')
  for (const text of await textsIn(folder)) for (const [name] of text.matchAll(pattern)) names.add(name)
  names.delete(tip)
  if (names.size === 0) return null
  const input = `${[...names].join('\n')}\n`
  const checked = (await repository.git(['cat-file', '--batch-check=%(objecttype) %(objectname)'], { input }))
    .split('\n')
    .map((line) => line.split(' '))
  const ofType = (type: string) => checked.flatMap(([kind, name = '']) => (kind === type ? [name] : []))
  const listed = await repository.git(['rev-list', '--ignore-missing', '--stdin'], {
    input: [...ofType('commit'), `^${tip}`, ''].join('\n'),
  })
  const beyond = new Set(listed.split('\n'))
  const parents = ofType('commit')
    .filter((name) => beyond.has(name))
    .slice(0, mostObjects)
  const entries = [
    ...ofType('blob').map((name) => `100644 blob ${name}\t${name}\n`),
    ...ofType('tree').map((name) => `040000 tree ${name}\t${name}\n`),
  ]
  if (parents.length + entries.length === 0) return null
  const written = await repository.git(['mktree'], { input: entries.join('') })
  const of = parents.flatMap((name) => ['-p', name])
  return repository.git(['commit-tree', written, ...of, '-m', 'What git knew of the checkout'])
}

/** Of every file but the index and the repositories of submodules, which name nothing of this one. */
async function textsIn(folder: string): Promise<string[]> {
  const texts: string[] = []
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
    const path = join(folder, entry.name)
    if (entry.name === 'index' || entry.name === 'modules') continue
    if (entry.isDirectory()) texts.push(...(await textsIn(path)))
    else if (entry.isFile() && (await lstat(path)).size <= largestText)
      texts.push(await readFile(path, 'latin1'))
  }
  return texts
}

/**
 * Makes git know a checkout again: by the folder that was kept of it, or else by a new one. It comes to its place
 * whole; what an attempt that was cut off has left is made anew.
 */
export async function standGitSide(
  repository: Repository,
  options: {
    readonly id: string
    readonly tree: string
    readonly branch: string
    /** What was kept, where it was. */
    readonly kept: string | null
    /** A folder of ours to work in. */
    readonly scratch: string
    /** The name git had for it. */
    readonly name: string
  },
): Promise<string> {
  const { tree, kept } = options
  const all = join(repository.commonDir, 'worktrees')
  const half = join(all, `orangery-${options.id}`)
  await removeTree(half)
  const known = await adminOf(repository.commonDir, tree)
  if (known !== null) return known
  const made = join(options.scratch, 'tree')
  const left = await adminOf(repository.commonDir, made)
  if (left !== null) await removeTree(left)
  await removeTree(options.scratch)
  if (kept !== null) await copyTree(kept, half, 'plain-copy')
  else {
    await mkdir(options.scratch, { recursive: true, mode: 0o700 })
    await repository.git(['worktree', 'add', '--quiet', '--no-checkout', '--force', made, options.branch])
    await rename((await adminOf(repository.commonDir, made)) ?? '', half)
    await removeTree(options.scratch)
  }
  await writeLine(join(half, 'gitdir'), realLink(tree))
  for (let count = 0; ; count += 1) {
    const place = join(all, `${options.name}${count === 0 ? '' : count}`)
    if ((await lstat(place).catch(() => null)) !== null) continue
    await rename(half, place)
    return place
  }
}

/** A file of one line, made anew: what lies there is never written through. */
export async function writeLine(path: string, line: string): Promise<void> {
  await rm(path, { force: true })
  await writeFile(path, `${line}\n`, { flag: 'wx' })
}
