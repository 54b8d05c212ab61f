import { lstat, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import type { GitOptions } from '../../base/git.ts'
import { markers, withdrawal } from '../../base/markers.ts'
import { realFolder } from '../../base/paths.ts'
import type { RunResult } from '../../base/process.ts'
import { ownNamespace } from '../../base/throughHolder.ts'
import { makeScratch } from '../../base/scratch.ts'
import type { Aside } from './archive.ts'
import { holderOf, stateCommit } from '../git/gitSide.ts'
import { refuseLinked, refuseMounts } from '../find/mounts.ts'
import { changedPaths, someOf } from '../git/notes.ts'
import { removeTree } from './removeTree.ts'
import type { Repository } from '../git/repository.ts'
import type { Rollback } from '../make/rollback.ts'

export type AddWorktreeOptions = {
  readonly tree: string
  readonly branch: string
  /** Where the branch will stand. */
  readonly commit: string
  /** What git is told to start from: the commit, or the branch that stands on it. */
  readonly start: string
  readonly rollback: Rollback
}

/**
 * `git worktree add -b`, made so that taking it back can only ever take back what we made: the branch and the
 * path are known to be free before, and the branch goes only while it still stands where we put it.
 */
export async function addWorktree(repository: Repository, options: AddWorktreeOptions): Promise<void> {
  const { tree, branch, commit, start, rollback } = options
  await refuseTaken(repository, tree, branch)
  rollback.add(`branch ${branch}`, () => deleteBranch(repository, branch, commit))
  rollback.add(`worktree ${tree}`, () => removeWorktree(repository, tree))
  const add = ['worktree', 'add', '--quiet', '--no-checkout', '--no-track', '-b', branch, tree, start]
  await repository.git(add)
  // Only now can git say what is configured in there, and the filters of that be switched off.
  await repository.git(['reset', '--quiet', '--hard', '--no-recurse-submodules'], { cwd: tree })
}

async function refuseTaken(repository: Repository, tree: string, branch: string): Promise<void> {
  const refs = (
    await repository.git(['for-each-ref', '--format=%(refname)', 'refs/heads/agency', `refs/heads/${branch}`])
  ).split('\n')
  const blocked = refs.includes('refs/heads/agency')
  if (blocked || refs.includes(`refs/heads/${branch}`)) {
    throw new OrangeryError(
      'workspace.branch_taken',
      blocked
        ? `branch ${branch}: the repository has a branch "agency", so git allows none below it`
        : `branch ${branch}: it is there already`,
      {
        kind: 'cannot_create',
        hint: blocked ? 'Rename that branch.' : 'Try again; a new id is made each time.',
      },
    )
  }
  if ((await lstat(tree).catch(() => null)) !== null) {
    throw new OrangeryError('workspace.tree_taken', `${tree}: it is there already`, { kind: 'cannot_create' })
  }
}

/** Takes one worktree of ours out of the repository and off the disk; others are never pruned along. */
export async function removeWorktree(repository: Repository, tree: string): Promise<void> {
  // Git removes whatever it finds below the tree, through a link too.
  await refuseLinked(tree)
  await refuseMounts(tree)
  // Git knows it by its real path, and of a tree that is gone does not look for that.
  const real = realFolder(tree)
  const result = await repository.try(['worktree', 'remove', '--force', '--force', real])
  await removeTree(tree)
  if (result.code === 0) return
  const known = await worktreePaths(repository)
  if (!known.includes(real)) return
  throw new OrangeryError('workspace.worktree_stays', `worktree ${tree}: ${result.stderr.toString().trim()}`)
}

/**
 * Deletes a branch only while it stands at `commit` and no other checkout has it: under a user who works on it, it
 * would be gone. Says where it stays.
 */
export async function deleteBranch(
  repository: Repository,
  branch: string,
  commit: string,
): Promise<string | null> {
  const now = await repository.commit(`refs/heads/${branch}`)
  if (now === null) return null
  const holder = await holderOf(repository.commonDir, branch)
  if (holder !== null) return `branch ${branch} stays: it is checked out in ${holder}`
  await repository.git(['update-ref', '-d', `refs/heads/${branch}`, commit])
  return null
}

export async function worktreePaths(repository: Repository): Promise<string[]> {
  const text = await repository.git(['worktree', 'list', '--porcelain', '-z'])
  return text
    .split('\0')
    .filter((line) => line.startsWith('worktree '))
    .map((line) => line.slice('worktree '.length))
}

/** A commit that holds a marker would make every checkout of it look like one of ours. */
export async function refuseTrackedMarkers(repository: Repository, commit: string): Promise<void> {
  const tracked = await repository.git(['ls-tree', '--full-tree', '--name-only', commit, ...markers])
  if (tracked === '') return
  const marker = tracked.split('\n')[0] ?? ''
  throw new OrangeryError(
    'workspace.marker_tracked',
    `${marker}: the repository tracks a file of this name`,
    {
      kind: 'input',
      hint: `Remove it: git rm --cached ${marker}`,
    },
  )
}

export type Snapshot = { readonly commit: string; readonly notes: readonly string[] }

/**
 * A commit of everything in a checkout, tracked or not, on top of `tip`; `tip` itself where nothing differs. Some
 * things git cannot hold, a repository without a commit for one: they go with the folder alone, and are named.
 */
export async function snapshotCommit(repository: Repository, tree: string, tip: string): Promise<Snapshot> {
  const folder = await makeScratch('orangery-index-')
  try {
    const options = { cwd: tree, env: { GIT_INDEX_FILE: join(folder, 'index') } }
    await repository.git(['read-tree', tip], options)
    const add = ['add', '-A', '--ignore-errors', '.']
    let added = await repository.try(add, options)
    if (isShutOut(added)) added = await repository.try(add, { ...options, through: ownNamespace })
    const isWhole = added.code === 0 && !isShutOut(added)
    const left = isWhole ? await newGitlinks(repository, tip, options) : await leftOut(repository, options)
    const notes = isWhole && left.length === 0 ? [] : [onlyInFolder(left)]
    const input = withdrawal(tip.length)
    await repository.git(['update-index', '-z', '--index-info'], { ...options, input })
    const written = await repository.git(['write-tree'], options)
    if (written === (await repository.git(['rev-parse', `${tip}^{tree}`]))) return { commit: tip, notes }
    const message = 'Work that was not committed'
    return { commit: await repository.git(['commit-tree', written, '-p', tip, '-m', message]), notes }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Git says of a closed folder only that it was not looked into. */
export const isShutOut = ({ stderr }: RunResult): boolean => stderr.includes('Permission denied')

/** What of a checkout an index does not have as it is. */
async function leftOut(repository: Repository, options: GitOptions): Promise<string[]> {
  const status = ['status', '--porcelain', '-z', '-uall', '--no-renames', '--ignore-submodules=dirty']
  const fields = (await repository.try(status, options)).stdout.toString().split('\0')
  return changedPaths(fields.filter((field) => field !== '' && field[1] !== ' ').join('\0'))
}

/** Of another repository in the tree an index holds the name of a commit, and not a file. */
async function newGitlinks(repository: Repository, tip: string, options: GitOptions): Promise<string[]> {
  const asked = ['diff-index', '--cached', '--raw', '-z', '--no-renames', tip]
  const fields = (await repository.git(asked, options)).split('\0')
  return fields.flatMap((field, index) =>
    /^:(?!160000)\d+ 160000 /.test(field) ? [`${fields[index + 1] ?? ''}/`] : [],
  )
}

const onlyInFolder = (paths: readonly string[]): string =>
  `git could not hold ${paths.length === 0 ? 'all of the files' : someOf(paths)}: in the archive they are as files, not in its commit`

/**
 * What of a checkout is on no branch: commits of a HEAD that was detached, and content that was staged. Both
 * would go with git's side of the worktree.
 */
export async function asideOf(repository: Repository, tree: string, tip: string): Promise<Aside> {
  const aside: Aside = {}
  const state = await stateCommit(repository, tree, tip)
  if (state !== null) aside.state = state
  const head = await treeHead(repository, tree)
  if (head === null) return aside
  const isAttached = (await repository.try(['symbolic-ref', '-q', 'HEAD'], { cwd: tree })).code === 0
  if (!isAttached && head !== tip) aside.head = head
  const keep = (staged: string, what: string) =>
    repository.git(['commit-tree', staged, '-p', head, '-m', what])
  const written = await repository.try(['write-tree'], { cwd: tree })
  if (written.code === 0) {
    const staged = written.stdout.toString().trim()
    if (staged !== (await repository.git(['rev-parse', `${head}^{tree}`])))
      aside.index = await keep(staged, 'Work that was staged')
    return aside
  }
  // An index with conflicts has no tree: what is settled and the sides of what is not make one each.
  const entries = (await repository.raw(['ls-files', '-s', '-z'], { cwd: tree }))
    .toString('latin1')
    .split('\0')
  const stages = entries.flatMap((entry) => {
    const [, item = '', stage = '', path = ''] = /^(\d+ [0-9a-f]+) (\d)\t(.*)$/s.exec(entry) ?? []
    return item === '' ? [] : [{ item, stage, path }]
  })
  const treeOf = (lines: readonly string[]) => writeIndex(repository, lines)
  const settled = stages.filter(({ stage }) => stage === '0').map(({ item, path }) => `${item}\t${path}`)
  aside.index = await keep(await treeOf(settled), 'Work that was staged')
  const sides = stages.filter(({ stage }) => stage !== '0')
  const open = sides.map(({ item, stage, path }) => `${item}\t${stage}/${path}`)
  aside.conflict = await keep(await treeOf(open), 'Sides of conflicts')
  const merged = await repository.try(['rev-parse', '-q', '--verify', 'MERGE_HEAD'], { cwd: tree })
  if (merged.code === 0) aside.merge = merged.stdout.toString().trim()
  return aside
}

/** A tree of these entries, written as `update-index --index-info` takes them. */
async function writeIndex(repository: Repository, lines: readonly string[]): Promise<string> {
  const folder = await makeScratch('orangery-index-')
  try {
    const env = { GIT_INDEX_FILE: join(folder, 'index') }
    const input = Buffer.from(lines.map((line) => `${line}\0`).join(''), 'latin1')
    await repository.git(['update-index', '-z', '--index-info'], { env, input })
    return await repository.git(['write-tree'], { env })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Where the HEAD of a checkout stands, on a branch or not. */
export async function treeHead(repository: Repository, tree: string): Promise<string | null> {
  const found = await repository.try(['rev-parse', '-q', '--verify', 'HEAD^{commit}'], { cwd: tree })
  return found.code === 0 ? found.stdout.toString().trim() : null
}
