import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { access, constants, lstat, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import type { InvocationMeta } from '../../base/invocation.ts'
import { gitFailed } from '../../base/git.ts'
import { movedSubmodules, submoduleStays } from '../../base/gitlinks.ts'
import type { RunGit } from '../../base/indexRows.ts'
import { createRepoLock } from '../../base/lock.ts'
import { integrationMarker } from '../../base/markers.ts'
import { moveCheckedOut, refuseLockedIndex } from '../../base/moveBranch.ts'
import type { Layout } from '../../base/paths.ts'
import { run } from '../../base/process.ts'
import { ownNamespace } from '../../base/throughHolder.ts'
import { commitsDir, lastCommit, listCollected, publishCommits, type CollectedRef } from '../git/commits.ts'
import { readInvocationMeta } from '../find/invocation.ts'
import { landedTree, type LandedBlob } from './landedTree.ts'
import { hasMarker, hideMarkers, putBack, shownNotes } from '../find/marker.ts'
import { changedPaths, someOf } from '../git/notes.ts'
import { openRepository, type Repository } from '../git/repository.ts'
import { resolveWorktree } from '../find/scan.ts'
import { listSubmodules } from '../git/submodules.ts'
import { gitEnvironment, identityFromEnvironment } from '../git/userIdentity.ts'
import { openStatus } from '../end/wholeStatus.ts'

/**
 * What a landing records in git, chosen by the user: `merge` keeps the agent's commits as a second parent,
 * `squash` makes one commit, `apply` leaves the reviewed files uncommitted.
 */
export const landingKinds = ['merge', 'squash', 'apply'] as const
export type LandingKind = (typeof landingKinds)[number]

export type Identity = { readonly name: string; readonly email: string }

export type CommitLandingOptions = {
  readonly layout: Layout
  readonly repoId: RepoId
  readonly id: DispatchId
  readonly how: LandingKind
  /** Paths the reviewed changeset has written in the integration tree. */
  readonly paths: readonly (string | Buffer)[]
  /** What it has written there, for files that nobody but root can open; by path, a byte a character. */
  readonly blobs?: ReadonlyMap<string, LandedBlob>
  /** SHA-256 of what it left at each path, null for nothing, by path in the same way. */
  readonly hashes?: ReadonlyMap<string, string | null>
  readonly message?: string | undefined
  readonly identity?: Identity
}

export type Landed = {
  readonly branch: string
  readonly tree: string
  readonly commit: string | null
  readonly notes?: string[]
}

/**
 * Records on the integration branch what a reviewed changeset has written in the integration tree. The tree
 * of the commit is the branch's own plus exactly those paths, so it never holds an unreviewed byte nor the
 * user's uncommitted work, however the agent's history looks.
 */
export async function commitLanding(options: CommitLandingOptions): Promise<Landed> {
  const { layout, repoId, id, how } = options
  const meta = await readInvocationMeta(layout, repoId, id)
  const worktree = await integrationOf(layout, meta)
  const place = { branch: worktree.branch, tree: worktree.tree_path }
  const staying = await stayingSubmodules(layout, repoId, meta, worktree.tree_path)
  if (how === 'apply') return { ...place, commit: null, ...(staying.length === 0 ? {} : { notes: staying }) }
  const repository = await openRepository(worktree.common_dir)
  await using _lock = await createRepoLock(layout).acquire(repoId)
  // The files have landed: where the markers cannot be hidden, it is said that git shows them.
  await hideMarkers(repository.commonDir).catch(() => {})
  staying.push(...(await shownNotes(repository, worktree.tree_path, integrationMarker)))
  await assertOnBranch(repository, worktree.tree_path, worktree.branch)
  const head = await repository.git(['rev-parse', `refs/heads/${worktree.branch}^{commit}`])
  const { own, foreign } = await splitBySubmodule(
    repository,
    head,
    options.paths.map((path) => Buffer.from(path)),
  )
  const notes = [...(foreign.length === 0 ? [] : [inSubmodules(foreign)]), ...staying]
  const reviewed = { gitDir: layout.objects(repoId), blobs: options.blobs ?? new Map<string, LandedBlob>() }
  const tree = await landedTree(repository, worktree.tree_path, head, own, reviewed)
  if (options.hashes !== undefined)
    await refuseEditedSince(repository, worktree.tree_path, { head, tree, id, hashes: options.hashes })
  const published = how === 'merge' ? await publishCommits(layout, repoId, id, repository.commonDir) : []
  const parent = await agentTip(published, meta, repository, head)
  notes.push(...(await unmergedNotes(published, repository, parent ?? head)))
  const landed = notes.length === 0 ? place : { ...place, notes }
  if (parent === null && tree === (await repository.git(['rev-parse', `${head}^{tree}`]))) {
    return { ...landed, commit: null }
  }
  const identity = options.identity ?? (await userIdentity(worktree.tree_path))
  const commit = await repository.git(
    ['commit-tree', tree, '-p', head, ...(parent === null ? [] : ['-p', parent]), '-F', '-'],
    { input: options.message ?? landingMessage(meta, parent !== null), env: identityEnv(identity) },
  )
  await moveCheckedOut(layout, {
    checkout: worktree.tree_path,
    ref: `refs/heads/${worktree.branch}`,
    old: head,
    to: commit,
    message: landingOf(id),
    run: gitIn(repository, worktree.tree_path),
    movesRef: (args) => repository.raw(args),
  })
  return { ...landed, commit }
}

const gitIn =
  (repository: Repository, cwd: string): RunGit =>
  (args, options = {}) =>
    repository.raw(args, { cwd, ...options })

/** Files of a submodule belong to another repository: a commit that held them would take its place. */
async function splitBySubmodule(
  repository: Repository,
  head: string,
  paths: readonly Buffer[],
): Promise<{ own: Buffer[]; foreign: Buffer[] }> {
  const links = await listSubmodules(repository, head)
  const isForeign = (path: Buffer) => links.some((link) => path.toString().startsWith(`${link.path}/`))
  return { own: paths.filter((path) => !isForeign(path)), foreign: paths.filter(isForeign) }
}

async function stayingSubmodules(
  layout: Layout,
  repoId: RepoId,
  meta: InvocationMeta,
  tree: string,
): Promise<string[]> {
  const own = lastCommit(await listCollected(layout, repoId, meta.invocation_id), meta)
  if (own === undefined) return []
  const where = { gitDir: commitsDir(layout, repoId) }
  const moved = await movedSubmodules(meta.base_commit, own.commit, where)
  return [...moved].map(([path, points]) => `${path}: ${submoduleStays(path, points, tree)}`)
}

const inSubmodules = (paths: readonly Buffer[]): string =>
  `landed in submodules, and left there for you to commit: ${paths.map(String).join(', ')}`

/** The integration tree and branch a worktree sandbox lands on; asked before anything is written there. */
export async function integrationPlace(
  layout: Layout,
  meta: InvocationMeta,
  how: LandingKind = 'apply',
): Promise<{ branch: string; tree: string }> {
  const { branch, tree_path, common_dir } = await integrationOf(layout, meta)
  if (how !== 'apply') {
    const repository = await openRepository(common_dir)
    await assertOnBranch(repository, tree_path, branch)
    await refuseLockedIndex(layout, tree_path, gitIn(repository, tree_path))
  }
  return { branch, tree: tree_path }
}

/** SHA-256 of what we found in a file and of what we left; null: nothing. */
type Written = { readonly before: string | null; readonly after: string | null }

/**
 * Refuses a landing that would commit or unstage the user's own work: a file that both changed holds both in
 * the end, and only one of the two was reviewed. `landed` is what an earlier part of the landing has found and
 * left: a file that it merged with the user's own holds both already. `undone` is the same of the undo of a landing,
 * whose commit has stayed on the branch.
 */
export async function refuseOwnWork(
  layout: Layout,
  meta: InvocationMeta,
  changed: readonly string[],
  landed: ReadonlyMap<string, Written>,
  undone: ReadonlyMap<string, Written> = new Map(),
): Promise<void> {
  const { tree_path: tree, common_dir } = await integrationOf(layout, meta)
  const repository = await openRepository(common_dir)
  await using seen = await openStatus(repository, tree)
  const status = await seen.status(['-uall', '--no-renames', '--ignore-submodules=dirty'])
  if (status.code !== 0) throw gitFailed(['status'], status)
  const wanted = new Set([...changed, ...landed.keys()])
  const own: string[] = []
  for (const path of changedPaths(status.stdout.toString())) {
    if (!wanted.has(path)) continue
    const now = await hashAt(join(tree, path))
    const committed = await committedHash(repository, tree, path)
    const isOurs = [landed.get(path), undone.get(path)].some(
      (part) => part !== undefined && part.after === now && part.before === committed,
    )
    if (!isOurs && !(await isOnlyClosed(repository, tree, path))) own.push(path)
  }
  if (own.length === 0) return
  throw new OrangeryError(
    'workspace.own_work',
    `${tree}: you have changed ${someOf(own)} too and not committed it`,
    {
      kind: 'busy',
      hint: 'Commit or stash your change there first, or land with --how apply, which commits nothing. Where git shows none, take back the skip-worktree or assume-unchanged that you gave the file.',
      details: { paths: own },
    },
  )
}

/**
 * An editor may save a file after it has landed and before it is read for the commit. Asked once it was read: what is
 * as it landed now was so then. Of what the agent closed, the commit has the bytes of the review.
 */
async function refuseEditedSince(
  repository: Repository,
  cwd: string,
  made: {
    readonly head: string
    readonly tree: string
    readonly id: DispatchId
    readonly hashes: ReadonlyMap<string, string | null>
  },
): Promise<void> {
  const asked = ['diff-tree', '-r', '-z', '--name-only', '--no-renames', made.head, made.tree]
  const paths = (await repository.raw(asked)).toString('latin1').split('\0')
  const edited: string[] = []
  for (const path of paths.filter((each) => each !== '')) {
    const name = Buffer.from(path, 'latin1')
    const at = Buffer.concat([Buffer.from(`${cwd}/`), name])
    if (await isClosed(at)) continue
    if ((await hashAt(at)) !== (made.hashes.get(path) ?? null)) edited.push(name.toString())
  }
  if (edited.length === 0) return
  throw new OrangeryError(
    'workspace.own_work',
    `${cwd}: ${someOf(edited)} changed while the reviewed files landed`,
    {
      kind: 'busy',
      hint: `The files are there and nothing was committed. Take your change out of them and run \`orangery agent land ${made.id}\` again, or say --how apply, which commits nothing.`,
      details: { paths: edited },
    },
  )
}

/** What a checkout of the last commit would have at a path, with the line ends it would have there. */
async function committedHash(repository: Repository, cwd: string, path: string): Promise<string | null> {
  const kept = await repository.try(['cat-file', '--filters', `HEAD:${path}`], { cwd })
  return kept.code === 0 ? createHash('sha256').update(kept.stdout).digest('hex') : null
}

/** Git takes a file it cannot open for a changed one; as it was committed, it is nobody's work. */
async function isOnlyClosed(repository: Repository, tree: string, path: string): Promise<boolean> {
  if (!(await isClosed(join(tree, path)))) return false
  const now = await hashAt(join(tree, path))
  return now !== null && now === (await committedHash(repository, tree, path))
}

const isClosed = (path: string | Buffer): Promise<boolean> =>
  access(path, constants.R_OK).then(
    () => false,
    (error: NodeJS.ErrnoException) => error.code === 'EACCES',
  )

async function hashAt(path: string | Buffer): Promise<string | null> {
  const info = await lstat(path).catch(() => null)
  const hash = createHash('sha256')
  if (info?.isSymbolicLink() === true)
    return hash.update(await readlink(path, { encoding: 'buffer' })).digest('hex')
  if (info?.isFile() === false) return null
  try {
    for await (const piece of createReadStream(path)) hash.update(piece as Buffer)
    return hash.digest('hex')
  } catch (error) {
    const isShut = (error as NodeJS.ErrnoException).code === 'EACCES'
    const content = isShut ? await readClosed(String(path)) : null
    return content === null ? null : createHash('sha256').update(content).digest('hex')
  }
}

/** What its owner has closed to himself, as an agent may have done before it landed. */
async function readClosed(path: string): Promise<Buffer | null> {
  const [file, ...prefix] = ownNamespace.prefix
  const read = await run(file, [...prefix, 'cat', '--', path])
  return read.code === 0 ? read.stdout : null
}

async function integrationOf(layout: Layout, meta: InvocationMeta) {
  const found =
    meta.integration_worktree_id === null ? null : await resolveWorktree(layout, meta.integration_worktree_id)
  const isRemoved = found !== null && found.meta?.outcome === 'removed'
  if (found?.meta === null || found === null || found.broken || found.meta.outcome !== null) {
    throw new OrangeryError(
      'workspace.no_integration',
      `invocation ${meta.invocation_id}: it has no integration worktree to land in`,
      {
        kind: 'input',
        hint: isRemoved
          ? `It is in the archive: \`orangery worktree restore ${found.id}\` brings it back.`
          : 'Changesets of other workspaces land with `orangery changeset apply`.',
      },
    )
  }
  if (await hasMarker(found.meta.tree_path, integrationMarker)) return found.meta
  throw new OrangeryError(
    'workspace.not_integration_tree',
    `${found.meta.tree_path}: its integration marker is missing`,
    {
      kind: 'input',
      hint: `If it is the tree of ${found.meta.name}, put it back: ${putBack(found.meta.tree_path, integrationMarker)}`,
    },
  )
}

async function assertOnBranch(repository: Repository, tree: string, branch: string): Promise<void> {
  const head = await repository.try(['symbolic-ref', '-q', 'HEAD'], { cwd: tree })
  if (head.stdout.toString().trim() === `refs/heads/${branch}`) return
  throw new OrangeryError('workspace.branch_left', `${tree}: it is not on its branch ${branch}`, {
    kind: 'busy',
    hint: `Switch back: git -C ${tree} switch ${branch}`,
  })
}

/** The agent's last commit, of those in the user's repository by now; null if it made none. */
async function agentTip(
  published: readonly CollectedRef[],
  meta: InvocationMeta,
  repository: Repository,
  head: string,
): Promise<string | null> {
  const own = lastCommit(published, meta)
  // Nothing was committed, or a landing that was cut off has merged it already.
  return own === undefined || (await isWithin(repository, own.commit, head)) ? null : own.commit
}

export const isWithin = async (repository: Repository, commit: string, tip: string): Promise<boolean> =>
  (await repository.try(['merge-base', '--is-ancestor', commit, tip])).code === 0

/** A merge takes what the agent ended on; what else it committed is not in it. */
async function unmergedNotes(
  published: readonly CollectedRef[],
  repository: Repository,
  tip: string,
): Promise<string[]> {
  const left: string[] = []
  for (const { ref, commit } of published) if (!(await isWithin(repository, commit, tip))) left.push(ref)
  return left.length === 0 ? [] : [`commits of the agent that were not merged are kept in ${someOf(left)}`]
}

/** How a landing is known in the log of its branch, and in its message unless the user gave it another. */
export const landingOf = (id: string): string => `orangery: land ${id}`
export const trailerOf = (id: string): string => `Orangery-Invocation: ${id}`

function landingMessage(meta: InvocationMeta, merges: boolean): string {
  const label =
    meta.invocation_name === undefined || meta.invocation_name === ''
      ? meta.invocation_id
      : meta.invocation_name
  return `${merges ? 'Merge' : 'Land'} ${label}\n\n${trailerOf(meta.invocation_id)}\n`
}

/** The name and address the user commits with; reading them runs nothing. */
export async function userIdentity(cwd: string): Promise<Identity> {
  const named = identityFromEnvironment()
  if (named !== null) return named
  const read = async (key: string) => {
    const result = await run('git', ['config', '--get', key], { cwd, env: gitEnvironment() })
    return result.stdout.toString().trim()
  }
  return {
    name: (await read('user.name')) || 'Orangery',
    email: (await read('user.email')) || 'orangery@localhost',
  }
}

function identityEnv({ name, email }: Identity): Record<string, string> {
  return {
    GIT_AUTHOR_NAME: name,
    GIT_AUTHOR_EMAIL: email,
    GIT_COMMITTER_NAME: name,
    GIT_COMMITTER_EMAIL: email,
  }
}
