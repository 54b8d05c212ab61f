import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import { tryGit } from '../../base/git.ts'
import type { CommitRequest } from './commitRequest.ts'
import { isSureRename, readCopies } from '../capture/copies.ts'
import { Journals, type Journal } from '../apply/journal.ts'
import { followFiles, madeFor, planCommit, type Followed } from './landCommit.ts'
import { entryKey, type Side } from '../manifest.ts'
import type { Committable, CommitPlan, Made } from './ownCommits.ts'
import type { ApplyContext } from '../apply/transaction.ts'
import { readView } from '../review/view.ts'

/** What an apply has landed, as it could be committed when it was planned. */
async function landedBy(
  { layout }: ApplyContext,
  { repoId, id }: ChangesetRecord,
  { previous, bases, kept = [], operations }: Journal,
): Promise<Committable[]> {
  // What the user had deleted himself and gave to the agent is left, too, there being nothing to do: it stays in.
  const left = operations.filter(({ left: isLeft, before, after }) => isLeft === true && before !== after)
  const own = new Set([...kept, ...left.map(entryKey)])
  const copies = await readCopies(layout.changeset(repoId, id))
  const { files } = await readView(layout.objects(repoId), '', previous)
  const sure = files.filter((file) => file.from !== null && isSureRename(file, copies))
  const oldNames = new Map(sure.map(({ entry, from }) => [entryKey(entry), from]))
  const sides = new Map<string, Side | null>(bases.map(([key, { side }]) => [key, side]))
  return previous.entries.flatMap((entry) => {
    const key = entryKey(entry)
    const wanted = sides.get(key)
    if (wanted === undefined) return []
    const from = oldNames.get(key)
    const target = from == null ? { entry } : { entry, from }
    return [{ target, wanted, ...(own.has(key) ? { kept: true } : {}) }]
  })
}

/** Of an apply that a crash cut off: what follows its files, and the commit that was asked for with it. */
export async function followAfterCrash(
  context: ApplyContext,
  record: ChangesetRecord,
  journal: Journal,
): Promise<Followed> {
  const { commit, planned = [], commits, previous } = journal
  if (journal.kind !== 'apply') return { commits: [], notes: [] }
  const done = commits ?? (await madeOf(planned))
  const isMissing = commit !== undefined && done.length < Math.max(planned.length, 1)
  let plan: CommitPlan | undefined
  const notes: string[] = []
  if (isMissing) {
    const landed = await landedBy(context, record, journal)
    plan = await planCommit(context, record, previous, landed, commit).catch((error: unknown) => {
      notes.push(`no commit was made: ${error instanceof Error ? error.message : String(error)}`)
      return undefined
    })
  }
  const followed = await followFiles(context, record, previous, plan)
  return { commits: [...done, ...followed.commits], notes: [...notes, ...followed.notes] }
}

/** Those that are on their branch, whatever was built on them since. */
async function madeOf(planned: readonly Made[]): Promise<Made[]> {
  const made: Made[] = []
  for (const each of planned) {
    const ref = `refs/heads/${each.branch}`
    const options = { cwd: each.root }
    if ((await tryGit(['merge-base', '--is-ancestor', each.oid, ref], options)).code === 0) {
      made.push(each)
      continue
    }
    const { stdout } = await tryGit(['log', '-g', '--format=%H %gs', ref, '--'], options)
    // The first of them: a hook may commit, too.
    const line = stdout
      .toString()
      .split('\n')
      .findLast((entry) => entry.includes(madeFor('', each.oid)))
    if (line !== undefined) made.push({ ...each, oid: line.slice(0, line.indexOf(' ')) })
  }
  return made
}

type Missed = {
  readonly transaction: string
  readonly landed: readonly Committable[]
  readonly journal: Journal
}

/** The last apply that a commit was asked of and that has none: it can be asked for again. */
export async function missedCommit(context: ApplyContext, record: ChangesetRecord): Promise<Missed | null> {
  const journals = new Journals(context.layout.changeset(record.repoId, record.id), context.disk)
  for (const { kind, state, transaction } of context.records.applies(record.id).toReversed()) {
    if (kind !== 'apply' || state !== 'committed') continue
    const journal = await journals.readDone(transaction)
    if (journal.commit === undefined || (journal.commits ?? []).length > 0) continue
    return { transaction, journal, landed: await landedBy(context, record, journal) }
  }
  return null
}

/** No file lands: a commit that was asked for before and could not be made can be had now. */
export async function commitAlone(
  context: ApplyContext,
  record: ChangesetRecord,
  missed: Missed | null,
  request: CommitRequest | undefined,
): Promise<Followed> {
  if (request === undefined) return { commits: [], notes: [] }
  if (missed === null)
    return { commits: [], notes: [`no commit was made: ${await howItLanded(context, record, request)}`] }
  const { transaction, landed, journal } = missed
  const plan = await planCommit(context, record, journal.previous, landed, request)
  const followed = await followFiles(context, record, journal.previous, plan)
  if (followed.commits.length > 0) {
    const folder = context.layout.changeset(record.repoId, record.id)
    await new Journals(folder, context.disk).noteCommits(transaction, [...followed.commits])
  }
  return followed
}

async function howItLanded(
  { layout, disk, records }: ApplyContext,
  { repoId, id }: ChangesetRecord,
  { branch }: CommitRequest,
): Promise<string> {
  const last = records.applies(id).findLast(({ kind, state }) => kind === 'apply' && state === 'committed')
  if (last === undefined) return 'nothing has landed'
  const { commits = [] } = await new Journals(layout.changeset(repoId, id), disk).readDone(last.transaction)
  const [made] = commits
  if (made === undefined)
    return `it has landed before, without a commit; commit it with git, or \`orangery changeset undo ${id}\` and apply it with --commit`
  const way = made.branch === branch ? '' : `; bring that to ${branch} with git`
  return `it has landed before, with the commit ${made.oid.slice(0, 12)} on ${made.branch}${way}`
}
