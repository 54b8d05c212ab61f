import { rm } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { ApplyResult } from '../../shared/changeset.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { ChangesetRecord } from '../base/changesetRecords.ts'
import { makeScratch } from '../base/scratch.ts'
import { fromText, joinPath, type BytePath } from './bytePath.ts'
import { importCommits } from './commits.ts'
import {
  indexItems,
  mergeItems,
  planTree,
  treeItems,
  updateIndex,
  type ChangedItem,
  type PathChange,
} from './commitTree.ts'
import { Journals } from './journal.ts'
import type { Manifest } from './manifest.ts'
import { BlobReader } from './objects.ts'
import { planTakeOver, type CommitPlan, type Made, type RootPlace } from './ownCommits.ts'
import type { Landed } from './planApply.ts'
import type { ApplyContext } from './transaction.ts'
import { askGit, noCommit, tryRef, userGit } from './userGit.ts'

export type CommitRequest = {
  readonly branch: string
  readonly message?: string | undefined
  /** Takes over the commits the agent made instead of making one. */
  readonly own: boolean
  /** Runs the user's own hooks, which need the branch to be the one that is checked out. */
  readonly hooks: boolean
}
/** Finds out whether the commit can be made, while nothing has landed yet: afterwards it is too late to refuse. */
export async function planCommit(
  context: ApplyContext,
  record: ChangesetRecord,
  manifest: Manifest,
  landed: readonly Landed[],
  request: CommitRequest,
): Promise<CommitPlan> {
  const { branch } = request
  const isName = !branch.startsWith('-') && branch !== 'HEAD'
  if (!isName || (await askGit(['check-ref-format', '--normalize', `refs/heads/${branch}`], '/')) === '') {
    throw new OrangeryError('changeset.bad_branch', `${branch}: not a name for a branch`, {
      kind: 'usage',
      hint: 'Nothing was changed. `git check-ref-format` says what git takes.',
    })
  }
  await using blobs = new BlobReader(context.layout.objects(record.repoId))
  const places = await repositoriesOf(landed, manifest)
  if (request.own) return await planTakeOver(context, record, manifest, { landed, blobs, branch, places })
  const notes = places
    .filter(({ top }) => top === '')
    .map(({ root }) => `${root} is in no git repository: no commit was made of what landed there`)
  const tops = Map.groupBy(
    places.filter(({ top }) => top !== ''),
    ({ top }) => top,
  )
  if (tops.size === 0) {
    const where = places.map(({ root }) => root).join(', ')
    throw new OrangeryError('changeset.no_repository', `cannot commit: ${where} is in no git repository`, {
      kind: 'input',
      hint: 'Nothing was changed. Apply it without --commit.',
    })
  }
  const finish: (() => Promise<Made>)[] = []
  for (const [top, roots] of tops) {
    const changes = roots.flatMap(({ root, prefix }) => changesIn(root, prefix, landed))
    const planned = await planOne({ record, top, root: roots[0]?.root ?? top, changes, blobs, request })
    notes.push(...planned.notes)
    finish.push(...planned.finish)
  }
  return { finish, notes }
}

async function repositoriesOf(landed: readonly Landed[], { roots }: Manifest): Promise<RootPlace[]> {
  const found: RootPlace[] = []
  const own =
    landed.length === 0 ? roots.map(({ path }) => path) : landed.map(({ target }) => target.entry.root)
  for (const root of new Set(own)) {
    const top = await askGit(['rev-parse', '--show-toplevel'], root)
    found.push({ root, top, prefix: fromText(top === '' ? '' : relative(top, root)) })
  }
  return found
}

function changesIn(root: string, prefix: BytePath, landed: readonly Landed[]): PathChange[] {
  return landed
    .filter(({ target, kept }) => target.entry.root === root && kept !== true)
    .map(({ target: { entry, from }, wanted }) => ({
      path: joinPath(prefix, entry.path),
      base: entry.base,
      wanted,
      ignored: entry.ignored,
      ...(from === undefined ? {} : { from: joinPath(prefix, from.path) }),
    }))
}

async function planOne({
  record,
  top,
  root,
  changes,
  blobs,
  request: { branch, message, hooks },
}: {
  record: ChangesetRecord
  top: string
  root: string
  changes: readonly PathChange[]
  blobs: BlobReader
  request: CommitRequest
}): Promise<CommitPlan> {
  const ref = `refs/heads/${branch}`
  const isCurrent = (await askGit(['symbolic-ref', '-q', 'HEAD'], top)) === ref
  if (hooks && !isCurrent)
    throw new OrangeryError(
      'changeset.hooks_elsewhere',
      `hooks run only on the branch that is checked out, not on ${branch}`,
      { kind: 'input', hint: 'Nothing was changed.' },
    )
  const verify = (name: string) => askGit(['rev-parse', '--verify', '-q', `${name}^{commit}`], top)
  const old = await verify(ref)
  const parent = old || (await verify('HEAD'))
  const tree = await planTree(top, parent, branch, changes, blobs)
  if (tree.items.length === 0) {
    const why = changes.length === 0 ? 'nothing has landed' : `${branch} has all of it already`
    return { finish: [], notes: [...tree.notes, `no commit was made: ${why}`] }
  }
  const text = message ?? `Apply changeset ${record.id}`
  const parents = parent === '' ? [] : ['-p', parent]
  // Made while there is still a way back: who has no name or cannot sign learns it before anything lands.
  const oid = await userGit(['commit-tree', tree.oid, ...parents, '-m', text], { cwd: top })
  await tryRef(top, { ref, oid, old })
  const finish = async (): Promise<Made> => {
    const made = hooks ? await commitWithHooks(top, parent, tree.oid, text) : oid
    const what = `orangery: changeset ${record.id}`
    if (!hooks) await userGit(['update-ref', '-m', what, ref, oid, old || noCommit(oid)], { cwd: top })
    if (isCurrent) await followIndex(top, parent, tree.items)
    return { root, branch, oid: made }
  }
  return { finish: [finish], notes: tree.notes }
}
/** Hooks see an index of their own with exactly what is to be committed. */
async function commitWithHooks(top: string, parent: string, tree: string, text: string): Promise<string> {
  if ((await askGit(['rev-parse', '--verify', '-q', 'HEAD'], top)) !== parent)
    throw new OrangeryError('changeset.branch_moved', 'somebody else has committed meanwhile')
  const folder = await makeScratch('orangery-index-')
  try {
    const env = { GIT_INDEX_FILE: join(folder, 'index') }
    await userGit(['read-tree', tree], { cwd: top, env })
    await userGit(['commit', '-q', '-m', text], { cwd: top, hooks: true, env })
    return await userGit(['rev-parse', 'HEAD'], { cwd: top })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** What the user has staged stays staged; beside it the index moves along with the branch. */
async function followIndex(top: string, parent: string, items: readonly ChangedItem[]): Promise<void> {
  const paths = new Set(items.map(({ path }) => path))
  const before = await treeItems(top, parent)
  const staged = await indexItems(top, paths)
  const following: ChangedItem[] = []
  for (const { path, item } of items) {
    const merged = await mergeItems(top, before.get(path) ?? null, staged.get(path) ?? null, item)
    if (merged !== undefined) following.push({ path, item: merged })
  }
  await updateIndex(top, following)
  await askGit(['update-index', '-q', '--refresh'], top)
}

/** What follows the files: the agent's commits under our refs, and the commit the user asked for. */
export async function landCommit(
  context: ApplyContext,
  record: ChangesetRecord,
  manifest: Manifest,
  applied: { readonly result: ApplyResult; readonly landed: readonly Landed[] },
  request: CommitRequest | undefined,
  plan: CommitPlan | undefined,
): Promise<ApplyResult> {
  const { result, landed } = applied
  // Commits alone have landed where the changeset became applied just now.
  const hasLanded = landed.length > 0 || result.state !== record.state
  if (!hasLanded)
    return request === undefined ? result : { ...result, notes: ['no commit was made: nothing has landed'] }
  const notes = await importCommits(manifest, record.workspace, context.layout.objects(record.repoId))
  if (landed.length === 0)
    notes.push(`no file is changed by it; its commits are in refs/orangery/${record.id}/`)
  notes.push(...(plan?.notes ?? []))
  const made: Made[] = []
  for (const finish of plan?.finish ?? []) {
    try {
      made.push(await finish())
    } catch (error) {
      // The files have landed; a commit that could not be made takes nothing of that back.
      notes.push(`no commit was made: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  const [commit] = made
  if (commit !== undefined) await noteCommits(context, record, made)
  return {
    ...result,
    ...(commit === undefined ? {} : { commit }),
    ...(made.length > 1 ? { commits: made } : {}),
    ...(notes.length === 0 ? {} : { notes }),
  }
}

async function noteCommits(
  { layout, records, disk }: ApplyContext,
  { id, repoId }: ChangesetRecord,
  made: Made[],
) {
  const last = records.applies(id).findLast(({ kind }) => kind === 'apply')
  if (last !== undefined)
    await new Journals(layout.changeset(repoId, id), disk).noteCommits(last.transaction, made)
}
