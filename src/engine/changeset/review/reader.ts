import { readFile } from 'node:fs/promises'
import {
  isGiven,
  type Changeset,
  type DiffScope,
  type ExportFormat,
  type ReviewComment,
  type Transition,
  type Overlap,
} from '../../../shared/changeset.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { loggedEventSchema, type LoggedEvent } from '../../../shared/events.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import { stoppedAt, type ApplyContext } from '../apply/transaction.ts'
import { readBases } from '../capture/bases.ts'
import { parentsOf, type GivenPlace } from '../bytePath.ts'
import { readCopies } from '../capture/copies.ts'
import { isAbout, isOnFile } from './anchors.ts'
import { decisionsOf, type Decisions } from './decisions.ts'
import { diffText, pairsTold, type DiffPair, type DiffText } from './diffText.ts'
import { asMail, asTar } from './exports.ts'
import { Journals } from '../apply/journal.ts'
import { approvalsOfLanded } from './landedApprovals.ts'
import { entryKey } from '../manifest.ts'
import { BlobReader } from '../objects/objects.ts'
import { Overlaps } from './overlaps.ts'
import { callsOf, provenanceOf, type Call } from './provenance.ts'
import { reworkPrompt } from './reworkPrompt.ts'
import { SavedManifests } from '../saved.ts'
import { filesSince, pairsBetween, pairsOf } from './scope.ts'
import { reviewedBy, type Shown, type ShownFile } from './shown.ts'
import { changedFile, type Notes } from './changedFile.ts'
import { userIdentity } from '../commits/userGit.ts'
import { findFiles, noSuchPath, readView, type FileView, type View } from './view.ts'
import { readFirstSeen, seenKey } from '../capture/written.ts'

export type DiffOptions = GivenPlace & {
  readonly stat?: boolean | undefined
  readonly include_ignored?: boolean | undefined
  readonly scope?: DiffScope | undefined
  /** Only files that were decided on and changed since, each against what it was then. */
  readonly inter?: boolean | undefined
  readonly maxBytes?: number | undefined
  /** With what can never land, to be looked at; else it is left out, since `git apply` would make it. */
  readonly refused?: boolean | undefined
  readonly isMail?: boolean | undefined
  /** Somebody reads this: what he approves without naming a version is what he was shown here. */
  readonly read?: boolean | undefined
}
const largestDiff = 64 * 1024 * 1024
const largestPatch = 256 * 1024 * 1024
const pieceBytes = 64 * 1024
const largestLog = 32 * 1024 * 1024

export type ExportOptions = { readonly format: ExportFormat; readonly include_ignored?: boolean | undefined }
export type Exported = {
  readonly name: string
  /** Read once, to its end. */
  readonly chunks: AsyncIterable<Buffer>
  /** Files too large for a patch. */
  readonly left_out?: string[]
  /** What somebody has read who reads it. */
  readonly shown: Shown
}

/** Everything about changesets that changes nothing. */
export class ChangesetReader {
  readonly #context: ApplyContext
  /** A revision never changes, so neither does what is shown of it. */
  readonly #views = new Map<string, Promise<View>>()
  readonly #shared = new Overlaps((record) => this.#saved(record).read(record.revision))

  constructor(context: ApplyContext) {
    this.#context = context
  }

  find(id: DispatchId): ChangesetRecord {
    const record = this.#context.records.find(id)
    if (record !== null) return record
    throw new OrangeryError('changeset.not_found', `no changeset ${id}: nothing of it was captured`, {
      kind: 'not_found',
      hint: `It changed nothing, still runs, or could not be captured: \`orangery dispatch status ${id}\` says which.`,
    })
  }

  view(record: ChangesetRecord, revision: string = record.revision): Promise<View> {
    return this.#remembered(`${record.id} ${revision}`, async () =>
      readView(this.#gitDir(record), revision, await this.#saved(record).read(revision)),
    )
  }

  #remembered(key: string, read: () => Promise<View>): Promise<View> {
    const known = this.#views.get(key)
    if (known !== undefined) return known
    const reading = read()
    this.#views.set(key, reading)
    reading.catch(() => this.#views.delete(key))
    if (this.#views.size > 8) this.#views.delete(this.#views.keys().next().value ?? '')
    return reading
  }

  /** What people are shown: of a changeset that has landed, what landed, not the nothing that remains. */
  #shown(record: ChangesetRecord): Promise<View> {
    const applies = this.#context.records.applies(record.id)
    const landed =
      record.state === 'applied'
        ? applies.findLast(({ kind, state }) => kind === 'apply' && state === 'committed')
        : undefined
    return this.view(record, landed?.revision ?? record.revision)
  }

  async get(id: DispatchId): Promise<Changeset> {
    const record = this.find(id)
    const { manifest, files, insertions, deletions, revision } = await this.#shown(record)
    const { records } = this.#context
    const decisions = await this.#decisions(record)
    const notes = await this.#notes(record)
    const transitions = [...records.transitions(id)]
    return {
      id,
      state: record.state,
      roots: manifest.roots.map((root) => root.path),
      revision,
      files: files.map((file) => changedFile(file, decisions, notes)),
      insertions,
      deletions,
      dropped: manifest.dropped,
      transitions,
      turn: turnOf(transitions),
      dispatches: [id, ...records.turns(id).map((turn) => turn.dispatch)],
      escalated: record.escalated,
      stopped: await stoppedAt(this.#context, record),
      landed: records
        .applies(id)
        .filter(({ kind, state }) => kind === 'apply' && state === 'committed')
        .map(({ at, by }) => ({ at, by })),
      overlaps: await this.#overlaps(record),
      commits: manifest.commits.map(({ base: _base, head: _head, ...commit }) => commit),
    }
  }

  async diff(
    id: DispatchId,
    options: DiffOptions,
    by: string,
  ): Promise<{ diff: DiffText & { revision: string }; shown: Shown }> {
    const record = this.find(id)
    const current = await this.#shown(record)
    const { stat = false, scope = 'all', maxBytes = largestDiff } = options
    const chosen = diffedFiles(current, options)
    const entries = chosen.flatMap(({ entry, from }) => (from === null ? [entry] : [from, entry]))
    const earlier = scope === 'all' ? null : await this.#earlier(record, scope, by)
    let pairs: readonly DiffPair[] = entries
    let files: readonly ShownFile[] = chosen.map((file) => ({ file, since: null }))
    if (options.inter === true) {
      const changed = await this.#sinceDecided(record, current, chosen)
      pairs = changed.flatMap((each) => each.pairs)
      files = changed
    } else if (earlier !== null) {
      const bases = await readBases(this.#folder(record))
      const between = pairsBetween(earlier.manifest, current.manifest, bases)
      const keys = new Set(entries.map(entryKey))
      const refused = new Set(
        current.manifest.entries.filter((entry) => entry.refused !== null).map(entryKey),
      )
      pairs = between.filter((pair) =>
        isGiven(options) ? keys.has(entryKey(pair)) : !refused.has(entryKey(pair)),
      )
      files = filesSince(earlier, current)
    }
    const form = { stat, maxBytes, isMail: options.isMail === true }
    const text = await diffText(this.#gitDir(record), current.manifest.roots, pairs, form)
    const { revision } = current
    const told = new Set(stat || text.truncated ? [] : pairsTold(pairs).map(entryKey))
    const isWhole = !stat && !text.truncated && options.inter !== true && !isGiven(options)
    return {
      diff: { revision, ...text },
      shown: {
        revision,
        files: files.filter(({ file }) => told.has(entryKey(file.entry))),
        whole: isWhole ? { since: earlier?.revision ?? null } : null,
      },
    }
  }

  async #decisions(record: ChangesetRecord): Promise<Decisions> {
    const { records, disk } = this.#context
    const journals = new Journals(this.#folder(record), disk)
    const views: Promise<View>[] = []
    const committed = records
      .applies(record.id)
      .filter(({ kind, state }) => kind === 'apply' && state === 'committed')
    for (const [at, { transaction, revision }] of committed.entries()) {
      // Since the second apply this is more than that one found.
      views.push(this.view(record, revision))
      const previous = async () =>
        readView(this.#gitDir(record), '', (await journals.readDone(transaction)).previous)
      if (at > 0) views.push(this.#remembered(transaction, previous))
    }
    const landed: View[] = []
    for (const view of views) landed.push(...(await view.then((each) => [each]).catch(() => [])))
    const decisions = decisionsOf(records, record.id, { landed })
    const shown = await this.#shown(record)
    if (shown.revision === record.revision) return decisions
    const instead = approvalsOfLanded(shown, await this.view(record), decisions)
    return decisionsOf(records, record.id, { landed, instead })
  }

  /** What was decided on is found by content, so that it does not matter what was decided on other files since. */
  async #sinceDecided(
    record: ChangesetRecord,
    current: View,
    files: readonly FileView[],
  ): Promise<readonly (ShownFile & { readonly pairs: readonly DiffPair[] })[]> {
    const { records } = this.#context
    const decisions = await this.#decisions(record)
    const reopened = files.filter((file) => decisions.isReopened(file))
    if (reopened.length === 0) return []
    const known = records
      .captures(record.id)
      .toReversed()
      .map((each) => each.revision)
    const former = new Map<FileView, FileView>()
    for (const revision of new Set([...known, ...records.reviewedRevisions(record.id)])) {
      const open = reopened.filter((file) => !former.has(file))
      if (open.length === 0) break
      if (revision === current.revision) continue
      // Captures while the agent ran are not kept; what was decided on them has no text any more.
      const view = await this.view(record, revision).catch(() => null)
      for (const file of view === null ? [] : open) {
        const anchors = decisions.anchorsOf(file)
        const before = view?.files.find((each) => anchors.has(each.anchor))
        if (before !== undefined) former.set(file, before)
      }
    }
    return [...former].map(([file, since]) => ({ file, since, pairs: pairsOf(since.entry, file.entry) }))
  }

  async export(id: DispatchId, { format, include_ignored = false }: ExportOptions): Promise<Exported> {
    const record = this.find(id)
    if (format === 'tar') {
      const view = await this.#shown(record)
      const read = view.files.filter(
        ({ entry, ignored }) => entry.result !== null && (include_ignored || !ignored),
      )
      return {
        name: `${id}.tar`,
        chunks: this.#tar(record, view, include_ignored),
        // What is gone is not in it.
        shown: { revision: view.revision, files: read.map((file) => ({ file, since: null })), whole: null },
      }
    }
    const changeset = await this.get(id)
    const { diff, shown } = await this.diff(
      id,
      { include_ignored, maxBytes: largestPatch, refused: format === 'json', isMail: format === 'patch' },
      '',
    )
    if (diff.truncated) throw tooLarge(id, largestPatch)
    const bytes = diff.text_b64 === undefined ? Buffer.from(diff.text) : Buffer.from(diff.text_b64, 'base64')
    const leftOut = diff.left_out === undefined ? {} : { left_out: diff.left_out }
    if (format === 'patch') {
      const files = changeset.files.filter(
        ({ ignored, refused }) => refused === null && (include_ignored || !ignored),
      )
      const from = await userIdentity(changeset.roots[0] ?? '/')
      return {
        name: `${id}.patch`,
        shown,
        ...leftOut,
        chunks: inPieces(asMail(changeset, files, bytes, from)),
      }
    }
    const document = {
      version: 1,
      changeset,
      diff: diff.text,
      ...(diff.text_b64 === undefined ? {} : { diff_b64: diff.text_b64 }),
    }
    const text = Buffer.from(`${JSON.stringify(document, null, 2)}\n`)
    return { name: `${id}.json`, shown, ...leftOut, chunks: inPieces(text) }
  }

  async *#tar(
    record: ChangesetRecord,
    { manifest, files }: View,
    includeIgnored: boolean,
  ): AsyncGenerator<Buffer> {
    const chosen = files
      .filter(({ entry, ignored }) => entry.refused === null && (includeIgnored || !ignored))
      .map(({ entry }) => entry)
    // A folder comes with what is in it, and one that holds only what is left out stays away.
    const keys = new Set(
      chosen.flatMap(({ root, path }) =>
        [path, ...parentsOf(path)].map((each) => entryKey({ root, path: each })),
      ),
    )
    const entries = manifest.entries.filter((entry) => entry.refused === null && keys.has(entryKey(entry)))
    const names = new Map(manifest.roots.map((root) => [root.path, root.name]))
    await using blobs = new BlobReader(this.#gitDir(record))
    yield* asTar(entries, (root) => (names.size > 1 ? (names.get(root) ?? '') : ''), blobs)
  }

  async reworkPrompt(id: DispatchId, last: string): Promise<string | null> {
    const record = this.find(id)
    const { records } = this.#context
    return reworkPrompt(id, {
      view: await this.view(record),
      decisions: decisionsOf(records, id),
      comments: records.comments(id),
      transitions: records.transitions(id),
      last,
    })
  }

  async #notes(record: ChangesetRecord): Promise<Notes> {
    const comments = this.#context.records.comments(record.id)
    const calls = await this.#calls(record)
    const firstSeen = await readFirstSeen(this.#folder(record))
    return {
      copyOf: await readCopies(this.#folder(record)),
      comments: (file) =>
        comments
          .filter((comment) =>
            [file.entry, file.from].some((each) => each !== null && entryKey(comment) === entryKey(each)),
          )
          .map((comment): ReviewComment => {
            const { text, by, at } = comment
            const hunk = file.hunks.find((each) => isAbout(comment, file, each))
            const isThere = comment.hunk === null ? isOnFile(comment, file) : hunk !== undefined
            return { hunk: hunk?.id ?? comment.hunk, text, by, at, outdated: !isThere }
          }),
      provenance: (file, hunk) => {
        const writtenMs = firstSeen.get(seenKey(file.entry, hunk))
        return writtenMs === undefined ? null : provenanceOf(calls, file.entry, writtenMs)
      },
    }
  }

  /** What the agent did, over all its turns. */
  async #calls({ id, repoId }: ChangesetRecord): Promise<readonly Call[]> {
    const { layout, records } = this.#context
    const calls: Call[] = []
    for (const dispatch of [id, ...records.turns(id).map((turn) => turn.dispatch)])
      calls.push(...callsOf(await this.#events(layout.events(repoId, dispatch)), dispatch))
    return calls
  }

  async #events(path: string): Promise<LoggedEvent[]> {
    const text = await readFile(path, 'utf8').catch(() => '')
    if (text.length > largestLog) return []
    return text.split('\n').flatMap((line) => {
      if (
        !line.includes('"ToolCall"') &&
        !line.includes('"ToolResult"') &&
        !line.includes('"DispatchStarting"')
      )
        return []
      try {
        const parsed = loggedEventSchema.safeParse(JSON.parse(line))
        return parsed.success ? [parsed.data] : []
      } catch {
        return []
      }
    })
  }

  /** Warns of files that another open changeset touches, be its agent running or done. */
  async #overlaps(record: ChangesetRecord): Promise<Overlap[]> {
    if (!isOpen(record.state)) return []
    const open = this.#context.records.list().filter(({ state }) => isOpen(state))
    return this.#shared.of(record, (await this.view(record)).manifest, open)
  }

  async #earlier(record: ChangesetRecord, scope: DiffScope, by: string): Promise<View | null> {
    const { records } = this.#context
    const turn = turnOf(records.transitions(record.id))
    const revision =
      scope === 'review'
        ? ((await reviewedBy(this.#folder(record), by)) ?? records.reviewed(record.id, by))
        : (records.captures(record.id).findLast((capture) => capture.turn < turn)?.revision ?? null)
    if (revision === null) return null
    return this.view(record, revision).catch((error: NodeJS.ErrnoException) => {
      // Everything is more than what changed, and hides nothing.
      if (error.code === 'ENOENT') return null
      throw error
    })
  }

  #saved(record: ChangesetRecord): SavedManifests {
    return new SavedManifests(this.#folder(record), this.#context.disk)
  }
  #folder(record: ChangesetRecord): string {
    return this.#context.layout.changeset(record.repoId, record.id)
  }
  #gitDir(record: ChangesetRecord): string {
    return this.#context.layout.objects(record.repoId)
  }
}

/** Each time somebody sent it back; an agent that goes on by itself is still in the same turn. */
export function turnOf(transitions: readonly Pick<Transition, 'from' | 'to' | 'by'>[]): number {
  const sentBack = transitions.filter(
    ({ from, to, by }) => from !== null && from !== to && to === 'active' && by !== 'agent',
  )
  return 1 + sentBack.length
}

/** Which files a diff is of. */
function diffedFiles(view: View, options: DiffOptions): readonly FileView[] {
  if (isGiven(options)) return chooseFiles(view, options)
  return view.files.filter(
    ({ entry, ignored }) =>
      (options.include_ignored === true || !ignored) && (options.refused === true || entry.refused === null),
  )
}

/** One file by its path, or all that lie in a folder. */
export function chooseFiles(view: View, given: GivenPlace): readonly FileView[] {
  const { exact, inside } = findFiles(view, given)
  const files = exact.length > 0 ? exact : inside
  if (files.length > 0) return files
  throw noSuchPath(view, given)
}

async function* inPieces(whole: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < whole.length; at += pieceBytes) yield whole.subarray(at, at + pieceBytes)
}

const isOpen = (state: string) => state === 'active' || state === 'review'

function tooLarge(id: DispatchId, size: number): OrangeryError {
  const why = `it is larger than ${Math.round(size / 1024 ** 2)} MB`
  return new OrangeryError('changeset.too_large', `cannot export changeset ${id}: ${why}`, {
    kind: 'cannot_create',
    hint: 'Export it as a tar, single files with `changeset diff --path`, or apply it.',
  })
}
