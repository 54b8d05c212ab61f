import { OrangeryError } from '../../../shared/errors.ts'
import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import { alsoObjectsOf, git, tryGit } from '../../base/git.ts'
import type { GitItem, Weave } from '../../base/indexRows.ts'
import { moveCheckedOut, refuseCheckedOutElsewhere, refuseLockedIndex } from '../../base/moveBranch.ts'
import { fromBytes, joinPath, toText, type BytePath } from '../bytePath.ts'
import { cleanedItems, mergeItems, sameItem } from './commitTree.ts'
import { Journals } from '../apply/journal.ts'
import { entryKey, type Manifest, type Side } from '../manifest.ts'
import type { BlobReader } from '../objects/objects.ts'
import type { Landed } from '../apply/planApply.ts'
import { treeItemOf } from '../apply/rebase.ts'
import type { ApplyContext } from '../apply/transaction.ts'
import { askGit, noCommit, tryRef, userGit, userGitIn } from './userGit.ts'

/** What lands or has landed, as far as a commit is concerned. */
export type Committable = Pick<Landed, 'wanted' | 'kept'> & {
  readonly target: Pick<Landed['target'], 'entry' | 'from'>
}
export type Made = { readonly root: string; readonly branch: string; readonly oid: string }
/** Commits that are ready, each to be put on its branch once the files have landed. */
export type CommitPlan = {
  /** What each will have made; hooks may have it make another one, which the log of the branch then says. */
  readonly planned: readonly Made[]
  readonly finish: readonly (() => Promise<Made>)[]
  readonly notes: readonly string[]
  /** What was asked for besides, for who tries again. */
  readonly flags?: readonly string[]
}
/** A root, the work tree it lies in (empty for none), and where in it. */
export type RootPlace = { readonly root: string; readonly top: string; readonly prefix: BytePath }
type Commit = Manifest['commits'][number]
/** What was approved for a path and what the agent began with, as git would keep it: as it is, or with the line ends the settings want. */
type Approved = {
  readonly key: string
  readonly isProtected: boolean
  readonly items: readonly (GitItem | null)[]
  readonly bases: readonly (GitItem | null)[]
}
type Given = {
  readonly landed: readonly Committable[]
  readonly blobs: BlobReader
  readonly branch: string
  readonly places: readonly RootPlace[]
}

/** Points a branch at the last commit the agent made; only forwards, and with its index where it is checked out. */
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
  const held = new Set<string>()
  for (const { root, oid } of lastCommits(manifest)) {
    const cwd = await checkoutOf(root, ref, given.places)
    const top = await askGit(['rev-parse', '--show-toplevel'], cwd)
    const isCurrent = top !== '' && (await askGit(['symbolic-ref', '-q', 'HEAD'], cwd)) === ref
    await refuseCheckedOutElsewhere(userGitIn(cwd), ref, isCurrent ? top : null)
    if (isCurrent) await refuseLockedIndex(context.layout, top, userGitIn(top))
    const common = await userGit(askCommonDir, { cwd })
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
    const from =
      startOf(manifest, root, oid) ?? (await askGit(['rev-parse', '--verify', '-q', 'HEAD^{commit}'], cwd))
    if (from !== '') await tryRef(cwd, { ref, oid: from, old })
    const seen = await refuseUnseen({ context, record, given, cwd, common, history, from, oid })
    for (const key of seen) held.add(key)
    planned.push({ root, branch, oid })
    finish.push(async () => {
      const message = `orangery: changeset ${manifest.id}`
      const run = userGitIn(isCurrent ? top : cwd)
      const weave: Weave = (before, staged, after) => mergeItems(top, before, staged, after)
      if (isCurrent)
        await moveCheckedOut(context.layout, { checkout: top, ref, old, to: oid, message, run, weave })
      else await run(['update-ref', '-m', message, ref, oid, old || noCommit(oid)])
      return { root, branch, oid }
    })
  }
  return { finish, planned, notes: inNoCommit(given, held) }
}

/** What the agent has not committed lands as a file all the same, and who reads of its commits takes it for one of them. */
function inNoCommit({ landed, places }: Given, held: ReadonlySet<string>): string[] {
  const left = landed.filter(({ target: { entry }, wanted, kept }) => {
    const isContent = [entry.base, wanted].some((side) => treeItemOf(entry.path, side).length > 0)
    return isContent && kept !== true && !held.has(entryKey(entry))
  })
  if (left.length === 0) return []
  const names = left.map(({ target: { entry } }) =>
    places.length > 1 ? `${entry.root}: ${toText(entry.path)}` : toText(entry.path),
  )
  return [
    `approved, but in none of the agent's commits: ${listed(names)}; landed as files only, and \`git status\` shows them: commit them yourself`,
  ]
}

const askCommonDir = ['rev-parse', '--path-format=absolute', '--git-common-dir']

/** Of a linked worktree the repository is a root of its own, without a checkout: that is another root, best on the branch itself. */
async function checkoutOf(root: string, ref: string, places: readonly RootPlace[]): Promise<string> {
  if ((await askGit(['rev-parse', '--show-toplevel'], root)) !== '') return root
  const common = await askGit(askCommonDir, root)
  const tops: string[] = []
  for (const top of new Set(places.map((place) => place.top)))
    if (top !== '' && (await askGit(askCommonDir, top)) === common) tops.push(top)
  for (const top of tops) if ((await askGit(['symbolic-ref', '-q', 'HEAD'], top)) === ref) return top
  return tops[0] ?? root
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
const startOf = (manifest: Manifest, root: string, oid: string): string | null | undefined =>
  manifest.commits.find((each) => each.root === root && each.oid === oid)?.base

/**
 * What of all that was approved the last commit holds, by `entryKey`.
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
}): Promise<ReadonlySet<string>> {
  const { history, from, oid } = look
  const approved = await approvedPaths(look)
  const start = from || emptyTree
  const not = from === '' ? [] : [`^${from}`]
  const commits = (await git(['rev-list', oid, ...not, '--'], history)).toString().trim().split('\n')
  const unseen = new Set<BytePath>()
  const yours = new Set<BytePath>()
  const held = new Set<string>()
  for (const commit of new Set([oid, ...commits.filter((each) => each !== '')])) {
    for (const { path, before, after } of await touched(history, start, commit)) {
      const known = approved.get(path)
      if (known !== undefined && commit === oid) held.add(known.key)
      const isApproved = known?.items.some((item) => sameItem(item, after)) === true
      const isOnTheWay = known?.isProtected === false && commit !== oid
      if (!isApproved && !isOnTheWay && !sameItem(before, after)) unseen.add(path)
      // What the user had not committed is in no diff, since the agent began with it; in the commit it is.
      else if (known?.bases.some((item) => sameItem(item, before)) === false) yours.add(path)
    }
  }
  if (unseen.size > 0)
    throw refusedCommits('commits_unseen', "the agent's commits hold what was not approved", unseen)
  if (yours.size > 0)
    throw refusedCommits('commits_yours', "the agent's commits hold what you had not committed", yours)
  return held
}

function refusedCommits(code: string, why: string, paths: ReadonlySet<BytePath>): OrangeryError {
  const names = [...paths].toSorted().map(toText)
  return new OrangeryError(`changeset.${code}`, `${why}: ${listed(names)}`, {
    kind: 'refused',
    hint: 'Nothing was changed. Leave --own away: then one commit is made of exactly what was approved.',
    details: { paths: names },
  })
}
function listed(names: readonly string[]): string {
  const more = names.length > 5 ? ` and ${names.length - 5} more` : ''
  return `${names.slice(0, 5).join(', ')}${more}`
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
  const bases = new Map<string, Side | null>()
  const journals = new Journals(context.layout.changeset(record.repoId, record.id), context.disk)
  for (const { kind, state, transaction } of context.records.applies(record.id)) {
    if (kind !== 'apply' || state !== 'committed') continue
    const journal = await journals.readDone(transaction).catch(() => journals.read(transaction))
    const entries = new Map(journal.previous.entries.map((entry) => [entryKey(entry), entry]))
    for (const [key, { side }] of journal.bases) {
      const entry = entries.get(key)
      sides.set(key, { side, isProtected: entry?.protected === true })
      if (entry !== undefined && !bases.has(key)) bases.set(key, entry.base)
    }
  }
  for (const { target, wanted, kept } of landed) {
    const key = entryKey(target.entry)
    if (kept === true) sides.delete(key)
    else sides.set(key, { side: wanted, isProtected: target.entry.protected })
    if (!bases.has(key)) bases.set(key, target.entry.base)
  }
  const approved = new Map<BytePath, Approved>()
  for (const { root, top, prefix } of places) {
    if (top === '') continue
    const theirs = await userGit(askCommonDir, { cwd: top })
    if (theirs !== common) continue
    const own = [...sides].flatMap(([key, known]) => {
      const isHere = key.startsWith(`${root}\0`)
      const path = joinPath(prefix, key.slice(root.length + 1))
      return isHere ? [{ ...known, key, path, base: bases.get(key) ?? null }] : []
    })
    const itemsOf = async (given: readonly { path: BytePath; side: Side | null }[]) => {
      const cleaned = await cleanedItems(top, from, given, blobs)
      return given.map(({ path, side }) => {
        const [exact] = treeItemOf(path, side)
        return exact === undefined ? [null] : [exact, cleaned.get(path) ?? exact]
      })
    }
    const items = await itemsOf(own)
    const begun = await itemsOf(own.map(({ path, base }) => ({ path, side: base })))
    for (const [at, { key, path, isProtected }] of own.entries())
      approved.set(path, { key, isProtected, items: items[at] ?? [], bases: begun[at] ?? [] })
  }
  return approved
}
