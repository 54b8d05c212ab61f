import { OrangeryError } from '../../shared/errors.ts'
import type { ChangesetRecord } from '../base/changesetRecords.ts'
import { alsoObjectsOf, git, tryGit } from '../base/git.ts'
import type { GitItem } from '../base/indexRows.ts'
import { refuseCheckedOutElsewhere } from '../base/moveBranch.ts'
import { fromBytes, joinPath, toText, type BytePath } from './bytePath.ts'
import { cleanedItems, sameItem } from './commitTree.ts'
import { Journals } from './journal.ts'
import { entryKey, type Manifest, type Side } from './manifest.ts'
import type { BlobReader } from './objects.ts'
import type { Landed } from './planApply.ts'
import { treeItemOf } from './rebase.ts'
import type { ApplyContext } from './transaction.ts'
import { askGit, noCommit, tryRef, userGit, userGitIn } from './userGit.ts'

/** What lands or has landed, as far as a commit is concerned. */
export type Committable = Pick<Landed, 'wanted' | 'kept'> & {
  readonly target: Pick<Landed['target'], 'entry' | 'from'>
}
export type Made = { readonly root: string; readonly branch: string; readonly oid: string }
/** Commits that are ready, each to be put on its branch once the files have landed. */
export type CommitPlan = {
  /** What each will have made, where that is known before. */
  readonly planned: readonly Made[]
  readonly finish: readonly (() => Promise<Made>)[]
  readonly notes: readonly string[]
}
/** A root, the work tree it lies in (empty for none), and where in it. */
export type RootPlace = { readonly root: string; readonly top: string; readonly prefix: BytePath }
type Commit = Manifest['commits'][number]
/** What was approved for a path, as git would keep it: as it is, or with the line ends the settings want. */
type Approved = { readonly isProtected: boolean; readonly items: readonly (GitItem | null)[] }
type Given = {
  readonly landed: readonly Committable[]
  readonly blobs: BlobReader
  readonly branch: string
  readonly places: readonly RootPlace[]
}

/** Points a branch at the last commit the agent made; only forwards, and never the branch that is checked out. */
export async function planTakeOver(
  context: ApplyContext,
  record: ChangesetRecord,
  manifest: Manifest,
  given: Given,
): Promise<CommitPlan> {
  const { branch } = given
  const ref = `refs/heads/${branch}`
  const finish: CommitPlan['finish'][number][] = []
  const planned: Made[] = []
  for (const { root: cwd, oid } of lastCommits(manifest)) {
    if ((await askGit(['symbolic-ref', '-q', 'HEAD'], cwd)) === ref)
      throw refusal('branch_in_use', `${branch} is checked out: name another branch`)
    await refuseCheckedOutElsewhere(userGitIn(cwd), ref, null)
    const common = await userGit(['rev-parse', '--path-format=absolute', '--git-common-dir'], { cwd })
    const history = {
      gitDir: context.layout.objects(record.repoId),
      env: alsoObjectsOf(common),
    }
    const old = await askGit(['rev-parse', '--verify', '-q', ref], cwd)
    if (old !== '' && (await tryGit(['merge-base', '--is-ancestor', old, oid], history)).code !== 0)
      throw refusal(
        'not_forward',
        `${branch} has commits that the agent's do not build on: name another branch`,
      )
    const from = await startOf(manifest, cwd, oid)
    if (from !== '') await tryRef(cwd, { ref, oid: from, old })
    await refuseUnseen({ context, record, given, cwd, common, history, from, oid })
    planned.push({ root: cwd, branch, oid })
    finish.push(async () => {
      const what = `orangery: changeset ${manifest.id}`
      await userGit(['update-ref', '-m', what, ref, oid, old || noCommit(oid)], { cwd })
      return { root: cwd, branch, oid }
    })
  }
  return { finish, planned, notes: [] }
}

/** Of each repository the branch that the agent ended on. */
function lastCommits(manifest: Manifest): Commit[] {
  const own = manifest.commits.filter(
    ({ ref, folder, submodule }) =>
      (ref === 'HEAD' || ref.startsWith('refs/heads/')) && folder === undefined && submodule === undefined,
  )
  if (own.length === 0) throw refusal('no_commits', 'the agent made no commits')
  return [...Map.groupBy(own, ({ root }) => root).values()].map((commits) => {
    const [only, ...others] = commits
    const last = commits.find(({ head }) => head === true) ?? (others.length === 0 ? only : undefined)
    if (last !== undefined) return last
    const names = commits.map(({ ref }) => ref.replace('refs/heads/', '')).join(', ')
    throw refusal('several_branches', `the agent committed to ${names} and ended on none of them`)
  })
}

function refusal(code: string, why: string): OrangeryError {
  return new OrangeryError(`changeset.${code}`, why, { kind: 'input', hint: 'Nothing was changed.' })
}

/** Where the agent started: by the user's repository, since what the agent's own says proves nothing. */
async function startOf(manifest: Manifest, cwd: string, oid: string): Promise<string> {
  const recorded = manifest.commits.find((each) => each.root === cwd && each.oid === oid)?.base
  return recorded ?? (await askGit(['rev-parse', '--verify', '-q', 'HEAD^{commit}'], cwd))
}

/**
 * An agent could commit what nobody is shown (a file it removes again, one that was rejected, a protected one) and
 * have it on the user's branch: every commit may touch only what lands, and the last must hold what was approved.
 */
async function refuseUnseen(look: {
  readonly context: ApplyContext
  readonly record: ChangesetRecord
  readonly given: Given
  readonly cwd: string
  readonly common: string
  readonly history: { gitDir: string; env: Record<string, string> }
  readonly from: string
  readonly oid: string
}): Promise<void> {
  const { history, from, oid } = look
  const approved = await approvedPaths(look)
  const start = from || emptyTree
  const not = from === '' ? [] : [`^${from}`]
  const commits = (await git(['rev-list', oid, ...not, '--'], history)).toString().trim().split('\n')
  const unseen = new Set<BytePath>()
  for (const commit of new Set([oid, ...commits.filter((each) => each !== '')])) {
    for (const { path, before, after } of await touched(history, start, commit)) {
      const known = approved.get(path)
      const isApproved = known?.items.some((item) => sameItem(item, after)) === true
      const isOnTheWay = known?.isProtected === false && commit !== oid
      if (!isApproved && !isOnTheWay && !sameItem(before, after)) unseen.add(path)
    }
  }
  if (unseen.size === 0) return
  const names = [...unseen].toSorted().map(toText)
  const shown = names.slice(0, 5).join(', ')
  const more = names.length > 5 ? ` and ${names.length - 5} more` : ''
  throw new OrangeryError(
    'changeset.commits_unseen',
    `the agent's commits hold what was not approved: ${shown}${more}`,
    {
      kind: 'refused',
      hint: 'Nothing was changed. Leave --own away: then one commit is made of exactly what was approved.',
      details: { paths: names },
    },
  )
}
const emptyTree = '4b825dc642cb6eb9a060e54bf8d69288fbee4904'
const nothing = '000000'

type Touched = { readonly path: BytePath; readonly before: GitItem | null; readonly after: GitItem | null }

async function touched(
  history: { gitDir: string; env: Record<string, string> },
  from: string,
  to: string,
): Promise<Touched[]> {
  const raw = fromBytes(
    await git(['diff-tree', '-r', '-z', '--raw', '--no-renames', '--full-index', from, to, '--'], history),
  )
  const rows = raw.split('\0')
  const found: Touched[] = []
  for (let at = 0; at + 1 < rows.length; at += 2) {
    const [modeBefore = '', mode = '', before = '', oid = ''] = (rows[at] ?? '').replace(/^:/, '').split(' ')
    const item = (its: string, name: string) => (its === nothing ? null : { mode: its, oid: name })
    found.push({ path: rows[at + 1] as BytePath, before: item(modeBefore, before), after: item(mode, oid) })
  }
  return found
}

/** What lands now and what has landed of it before, by its path in this repository. */
async function approvedPaths({
  context,
  record,
  given: { landed, blobs, places },
  common,
  from,
}: Parameters<typeof refuseUnseen>[0]): Promise<ReadonlyMap<BytePath, Approved>> {
  const sides = new Map<string, { side: Side | null; isProtected: boolean }>()
  const journals = new Journals(context.layout.changeset(record.repoId, record.id), context.disk)
  for (const { kind, state, transaction } of context.records.applies(record.id)) {
    if (kind !== 'apply' || state !== 'committed') continue
    const { bases, previous } = await journals.readDone(transaction).catch(() => journals.read(transaction))
    const guarded = new Set(previous.entries.filter((entry) => entry.protected).map(entryKey))
    for (const [key, { side }] of bases) sides.set(key, { side, isProtected: guarded.has(key) })
  }
  for (const { target, wanted, kept } of landed) {
    const key = entryKey(target.entry)
    if (kept === true) sides.delete(key)
    else sides.set(key, { side: wanted, isProtected: target.entry.protected })
  }
  const approved = new Map<BytePath, Approved>()
  for (const { root, top, prefix } of places) {
    if (top === '') continue
    const theirs = await userGit(['rev-parse', '--path-format=absolute', '--git-common-dir'], { cwd: top })
    if (theirs !== common) continue
    const own = [...sides].flatMap(([key, known]) => {
      const isHere = key.startsWith(`${root}\0`)
      return isHere ? [{ ...known, path: joinPath(prefix, key.slice(root.length + 1)) }] : []
    })
    const cleaned = await cleanedItems(top, from, own, blobs)
    for (const { path, side, isProtected } of own) {
      const [exact] = treeItemOf(path, side)
      const items = exact === undefined ? [null] : [exact, cleaned.get(path) ?? exact]
      approved.set(path, { isProtected, items })
    }
  }
  return approved
}
