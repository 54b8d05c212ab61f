import { rm } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { ApplyResult } from '../../../shared/changeset.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { shellLine } from '../../../shared/shellLine.ts'
import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import type { Weave } from '../../base/indexRows.ts'
import { isOfSubmodule } from '../../base/gitlinks.ts'
import { moveCheckedOut, refuseCheckedOutElsewhere, refuseLockedIndex } from '../../base/moveBranch.ts'
import { makeScratch } from '../../base/scratch.ts'
import { fromText, joinPath, type BytePath } from '../bytePath.ts'
import { importCommits } from './commits.ts'
import { identityOf, type CommitRequest } from './commitRequest.ts'
import { mergeItems, planTree, type PathChange } from './commitTree.ts'
import type { Manifest } from '../manifest.ts'
import { BlobReader } from '../objects/objects.ts'
import { planTakeOver, type Committable, type CommitPlan, type Made, type RootPlace } from './ownCommits.ts'
import type { ApplyContext } from '../apply/transaction.ts'
import { askGit, noCommit, tryRef, userGit, userGitIn } from './userGit.ts'

/** What came of them, and what a person has to know of it. */
export type Followed = { readonly commits: readonly Made[]; readonly notes: readonly string[] }

/** Finds out whether the commit can be made, while nothing has landed yet: afterwards it is too late to refuse. */
export async function planCommit(
  context: ApplyContext,
  record: ChangesetRecord,
  manifest: Manifest,
  landed: readonly Committable[],
  request: CommitRequest,
): Promise<CommitPlan> {
  const { branch } = request
  await using blobs = new BlobReader(context.layout.objects(record.repoId))
  const places = await repositoriesOf(landed, manifest)
  if (request.own) {
    const taken = await planTakeOver(context, record, manifest, { landed, blobs, branch, places })
    return { ...taken, flags: ['--own'] }
  }
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
  const planned: Made[] = []
  const outside: string[] = []
  for (const [top, roots] of tops) {
    const changes = roots.flatMap(({ root, prefix }) => changesIn(root, prefix, landed))
    const root = roots[0]?.root ?? top
    const one = await planOne({ context, record, top, root, changes, blobs, request })
    notes.push(...one.notes)
    finish.push(...one.finish)
    planned.push(...one.planned)
    outside.push(...one.outside)
  }
  const [first] = outside
  if (planned.length === 0 && first !== undefined)
    throw new OrangeryError('changeset.nothing_to_commit', `no commit can be made of it: ${first}`, {
      kind: 'input',
      hint: 'Nothing was changed. Apply it without --commit.',
    })
  return { finish, planned, notes, flags: flagsOf(request) }
}

const flagsOf = ({ hooks, sign, message }: CommitRequest): string[] => [
  ...(hooks ? ['--hooks'] : []),
  ...(sign === true ? ['--sign'] : []),
  ...(message === undefined ? [] : ['--message', message]),
]

/** Git takes some names for a branch of which it means something else wherever else they are said. */
export async function refuseBadName(branch: string): Promise<void> {
  const isElse = branch === '@' || branch.startsWith('refs/')
  if (!isElse && (await askGit(['check-ref-format', '--branch', branch], '/')) === branch) return
  const short = branch.replace(/^refs\/heads\//, '')
  const hint = isElse && short !== branch ? `Say ${short}.` : '`git check-ref-format` says what git takes.'
  throw new OrangeryError('changeset.bad_branch', `${branch}: not a name for a branch`, {
    kind: 'usage',
    hint: `Nothing was changed. ${hint}`,
  })
}

async function repositoriesOf(landed: readonly Committable[], { roots }: Manifest): Promise<RootPlace[]> {
  const found: RootPlace[] = []
  const own =
    landed.length === 0 ? roots.map(({ path }) => path) : landed.map(({ target }) => target.entry.root)
  for (const root of new Set(own)) {
    const top = await askGit(['rev-parse', '--show-toplevel'], root)
    found.push({ root, top, prefix: fromText(top === '' ? '' : relative(top, root)) })
  }
  return found
}

function changesIn(root: string, prefix: BytePath, landed: readonly Committable[]): PathChange[] {
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
  context,
  record,
  top,
  root,
  changes,
  blobs,
  request,
}: {
  context: ApplyContext
  record: ChangesetRecord
  top: string
  root: string
  changes: readonly PathChange[]
  blobs: BlobReader
  request: CommitRequest
}): Promise<CommitPlan & { readonly outside: readonly string[] }> {
  const { branch, message, hooks } = request
  const ref = `refs/heads/${branch}`
  const run = userGitIn(top)
  const isCurrent = (await askGit(['symbolic-ref', '-q', 'HEAD'], top)) === ref
  if (hooks && !isCurrent)
    throw new OrangeryError(
      'changeset.hooks_elsewhere',
      `hooks run only on the branch that is checked out, not on ${branch}`,
      { kind: 'input', hint: 'Nothing was changed.' },
    )
  await refuseCheckedOutElsewhere(run, ref, top)
  if (isCurrent) await refuseLockedIndex(context.layout, top, run)
  const verify = (name: string) => askGit(['rev-parse', '--verify', '-q', `${name}^{commit}`], top)
  const old = await verify(ref)
  const parent = old || (await verify('HEAD'))
  const tree = await planTree(top, parent, branch, changes, blobs)
  if (tree.items.length === 0) {
    const why = changes.length === 0 ? 'nothing has landed' : `${branch} has all of it already`
    const told = [...tree.notes, `no commit was made: ${why}`]
    return { finish: [], planned: [], notes: told, outside: tree.notes }
  }
  const text = message ?? `Apply changeset ${record.id}`
  const parents = parent === '' ? [] : ['-p', parent]
  const signing = request.sign === true ? ['-S'] : []
  const env = identityOf(request)
  // Made while there is still a way back: who has no name or cannot sign learns it before anything lands.
  const oid = await userGit(['commit-tree', ...signing, tree.oid, ...parents, '-m', text], { cwd: top, env })
  await tryRef(top, { ref, oid, old })
  const what = `orangery: changeset ${record.id}`
  const finish = async (): Promise<Made> => {
    if (!isCurrent) {
      await run(['update-ref', '-m', what, ref, oid, old || noCommit(oid)])
      return { root, branch, oid }
    }
    const to = hooks
      ? () => commitWithHooks(top, parent, { tree: tree.oid, text, what: madeFor(what, oid) }, request)
      : oid
    const weave: Weave = (before, staged, after) => mergeItems(top, before, staged, after)
    const made = await moveCheckedOut(context.layout, {
      checkout: top,
      ref,
      old,
      to,
      message: what,
      run,
      weave,
    })
    return { root, branch, oid: made }
  }
  const notes = [...tree.notes, ...(await unsignedNotes(top, request))]
  return { finish: [finish], planned: [{ root, branch, oid }], notes, outside: tree.notes }
}

/** Signing runs a program of the user's, as hooks do: it is asked for, and what is not done is said. */
async function unsignedNotes(top: string, { sign }: CommitRequest): Promise<string[]> {
  const isWanted = await askGit(['config', '--type=bool', '--get', 'commit.gpgsign'], top)
  return isWanted === 'true' && sign !== true
    ? ['the commit is not signed, though commit.gpgsign is set: `--sign` has your program sign it']
    : []
}

/** How the log of a branch tells which commit was made in place of the planned one: hooks change text and files. */
export const madeFor = (what: string, planned: string): string => `${what} (planned ${planned})`

/** Hooks see an index of their own with exactly what is to be committed. */
async function commitWithHooks(
  top: string,
  parent: string,
  { tree, text, what }: { tree: string; text: string; what: string },
  request: CommitRequest,
): Promise<string> {
  if ((await askGit(['rev-parse', '--verify', '-q', 'HEAD'], top)) !== parent)
    throw new OrangeryError('changeset.branch_moved', 'somebody else has committed meanwhile')
  const folder = await makeScratch('orangery-index-')
  try {
    const env = { ...identityOf(request), GIT_INDEX_FILE: join(folder, 'index'), GIT_REFLOG_ACTION: what }
    await userGit(['read-tree', tree], { cwd: top, env })
    const signing = request.sign === true ? '-S' : '--no-gpg-sign'
    await userGit(['commit', '-q', signing, '-m', text], { cwd: top, hooks: true, env })
    return await userGit(['rev-parse', 'HEAD'], { cwd: top })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** What follows the files: the agent's commits under our refs, and the commits the user asked for. */
export async function followFiles(
  { layout }: ApplyContext,
  record: ChangesetRecord,
  manifest: Manifest,
  plan: CommitPlan | undefined,
  isAlone = false,
): Promise<Followed> {
  const notes = await importCommits(manifest, record.workspace, layout.objects(record.repoId))
  if (isAlone) notes.push(`no file is changed by it; its commits are in refs/orangery/${record.id}/`)
  notes.push(...(plan?.notes ?? []))
  const commits: Made[] = []
  let failed = false
  for (const finish of plan?.finish ?? []) {
    try {
      commits.push(await finish())
    } catch (error) {
      // The files have landed; a commit that could not be made takes nothing of that back.
      notes.push(`no commit was made: ${error instanceof Error ? error.message : String(error)}`)
      failed = true
    }
  }
  const [first] = plan?.planned ?? []
  // Where another repository has its commit, the apply counts as committed.
  if (failed && first !== undefined && commits.length === 0)
    notes.push(`the files have landed; \`${again(record, first, plan)}\` makes the commit alone`)
  return { commits, notes }
}

const again = ({ id }: ChangesetRecord, { branch }: Made, plan: CommitPlan | undefined): string =>
  shellLine(['orangery', 'changeset', 'apply', id, '--commit', branch, ...(plan?.flags ?? [])])

/** Where its submodules stay, at the moment from which they can go along; a landing in an integration tree says so itself. */
export function submoduleNotes({ workspace }: ChangesetRecord, { dropped }: Manifest): string[] {
  if (workspace.strategy === 'worktree') return []
  return dropped.filter(isOfSubmodule).map(({ path, why }) => `${path}: ${why}`)
}

export function withCommits(result: ApplyResult, followed: Followed, before: readonly string[]): ApplyResult {
  const { commits } = followed
  const [commit] = commits
  const notes = [...before, ...followed.notes]
  return {
    ...result,
    ...(commit === undefined ? {} : { commit }),
    ...(commits.length > 1 ? { commits: [...commits] } : {}),
    ...(notes.length === 0 ? {} : { notes }),
  }
}
