import type { DispatchId } from '../../../shared/ids.ts'
import type { ChangesetRecords, CommentRecord, DecisionRecord } from '../../base/changesetRecords.ts'
import {
  anchorOfWhole,
  bytesOf,
  bytesOfFile,
  hasNoPlace,
  isAbout,
  isOnFile,
  movedAnchor,
  placesIn,
  storedName,
  versionOf,
} from './anchors.ts'
import { decisionsOf } from './decisions.ts'
import { entryKey, sameContent, sameSide } from '../manifest.ts'
import { readPatch } from './patch.ts'
import type { FileView, View } from './view.ts'

type Moves = Parameters<ChangesetRecords['move']>[1]

/** Notes where what was decided and said stands now, since the next step may move the side it is known by. */
export function renewPlaces(records: ChangesetRecords, id: DispatchId, view: View): void {
  const decisions = decisionsOf(records, id)
  const comments = Map.groupBy(records.comments(id), entryKey)
  const moves: { [Kind in keyof Moves]: Moves[Kind][number][] } = { decisions: [], comments: [] }
  for (const file of view.files) {
    const said = [file.entry, file.from].flatMap((entry) =>
      entry === null ? [] : (comments.get(entryKey(entry)) ?? []),
    )
    for (const hunk of file.hunks) {
      const moved = <R extends DecisionRecord | CommentRecord>(from: R, name: string) => ({
        from,
        to: { ...from, hunk: name, anchor: movedAnchor(from, file, hunk) },
      })
      const [newest, ...older] = decisions.recordsOf(file, hunk)
      if (newest !== undefined) moves.decisions.push(moved(newest, storedName(file, hunk)))
      // Were the newest taken back, an older one would speak again.
      moves.decisions.push(...older.map((from) => ({ from, to: null })))
      moves.comments.push(
        ...said.filter((each) => isAbout(each, file, hunk)).map((each) => moved(each, hunk.id)),
      )
    }
  }
  commit(records, id, moves)
}

/**
 * Decisions and comments follow a file to its new name. A file that was there before the agent came is known by where
 * it was renamed from; of any other only the agent's last version tells.
 */
export async function carryToNewNames(
  records: ChangesetRecords,
  id: DispatchId,
  gitDir: string,
  before: () => Promise<View>,
  now: View,
): Promise<void> {
  const decided = [...records.decisions(id), ...records.comments(id)]
  // Where these stand can be told only from what they were made on.
  if (decided.some(hasNoPlace)) renewPlaces(records, id, await before())
  // A folder that stands where a file was is none of it.
  const left = new Set(
    now.files.filter(({ entry }) => entry.result !== null).map(({ entry }) => entryKey(entry)),
  )
  const isRejection = (record: (typeof decided)[number]) => 'verdict' in record && record.verdict === 'reject'
  if (decided.every((record) => left.has(entryKey(record)) && !isRejection(record))) return
  // Lost or damaged it tells nothing: then everything is new.
  const earlier = await before().catch(() => null)
  const files = earlier?.files ?? []
  const rejected = rejectionsOf(records, id, files)
  if (earlier !== null) await followRenames(records, id, gitDir, left, earlier, now)
  const known = new Map(files.map((file) => [entryKey(file.entry), bytesOfFile(file)]))
  // What had these bytes before was there to be decided on by itself.
  const come = now.files.filter((file) => known.get(entryKey(file.entry)) !== bytesOfFile(file))
  for (const each of rejected) keepRejected(records, id, each, now, come)
  bringBackRejected(records, id, left, now, come)
}

async function followRenames(
  records: ChangesetRecords,
  id: DispatchId,
  gitDir: string,
  left: ReadonlySet<string>,
  earlier: View,
  now: View,
): Promise<void> {
  const decided = [...records.decisions(id), ...records.comments(id)]
  const known = new Map(earlier.files.map((file) => [entryKey(file.entry), file]))
  const gone = new Set(decided.map(entryKey).filter((key) => !left.has(key) && known.has(key)))
  if (gone.size === 0) return
  const taken = new Set(decided.map(entryKey))
  for (const { path: root, result_tree: tree } of now.manifest.roots) {
    const last = earlier.manifest.roots.find(({ path }) => path === root)?.result_tree
    for (const { path, from } of last === undefined ? [] : await readPatch(gitDir, last, tree)) {
      const was = from === null ? undefined : known.get(entryKey({ root, path: from }))
      const file = now.files.find(({ entry }) => entry.root === root && entry.path === path)
      if (was === undefined || file === undefined || !gone.has(entryKey(was.entry))) continue
      if (!taken.has(entryKey(file.entry))) carry(records, id, was, file)
    }
  }
}

/** A file of which somebody has rejected something, and by what. */
type Rejected = {
  readonly was: FileView
  readonly isWhole: boolean
  readonly rejections: readonly DecisionRecord[]
}

function rejectionsOf(records: ChangesetRecords, id: DispatchId, files: readonly FileView[]): Rejected[] {
  const decisions = decisionsOf(records, id)
  const byPath = Map.groupBy(records.decisions(id), entryKey)
  return files.map((was) => ({
    was,
    isWhole: decisions.ofFile(was) === 'reject',
    rejections: (byPath.get(entryKey(was.entry)) ?? []).filter(({ verdict }) => verdict === 'reject'),
  }))
}

/**
 * What was rejected is so wherever its very bytes turn up, be it over another file. Where git sees no rename, since
 * the agent had rewritten the file before, its old name is a deletion that nobody has spoken of: that something of it
 * was rejected stays known there.
 */
function keepRejected(
  records: ChangesetRecords,
  id: DispatchId,
  rejected: Rejected,
  now: View,
  come: readonly FileView[],
): void {
  const { was, isWhole, rejections } = rejected
  const [first] = rejections
  if (first === undefined) return
  const decisions = decisionsOf(records, id)
  const isSame = ({ entry: { result } }: FileView) =>
    result?.kind === 'file' && result.size > 0 && sameContent(result, was.entry.result)
  for (const file of isWhole ? come.filter(isSame) : []) {
    if (decisions.ofFile(file) !== null) continue
    records.decide(
      id,
      placesIn(file, file.hunks, true).map((place) => ({ ...first, ...place })),
    )
  }
  const isDeleted = now.files.some(
    ({ entry }) => entryKey(entry) === entryKey(was.entry) && entry.result === null,
  )
  const known = records.decisions(id).filter((record) => entryKey(record) === entryKey(was.entry))
  const isLost = ({ hunk }: DecisionRecord) => known.every((record) => record.hunk !== hunk)
  if (isDeleted) records.decide(id, rejections.filter(isLost))
}

/**
 * Of a file that was away for longer, or has been another one, only what was said of it is known. The very bytes that
 * somebody rejected are so when they come back, under whatever name, and from a file that is gone what he said of
 * them comes along.
 */
function bringBackRejected(
  records: ChangesetRecords,
  id: DispatchId,
  left: ReadonlySet<string>,
  now: View,
  come: readonly FileView[],
): void {
  const decisions = decisionsOf(records, id)
  const comments = records.comments(id)
  const deleted = new Set(now.manifest.entries.filter(({ result }) => result === null).map(entryKey))
  const versions = Map.groupBy(records.decisions(id), (record) => `${entryKey(record)}\0${versionOf(record)}`)
  for (const ofVersion of versions.values()) {
    const said = ofVersion.filter((record) => bytesOf(record) !== null)
    const [first] = said
    if (first === undefined || ofVersion.some(({ verdict }) => verdict !== 'reject')) continue
    const bytes = bytesOf(first)
    const back = come.filter((file) => bytesOfFile(file) === bytes)
    const open = back.filter((file) => decisions.ofFile(file) === null)
    const places = open.flatMap((file) => placesIn(file, file.hunks, true))
    if (places.length > 0)
      records.decide(
        id,
        places.map((place) => ({ ...first, ...place })),
      )
    const file = open[0] ?? back[0]
    if (file === undefined || left.has(entryKey(first))) continue
    const isOfThese = (comment: CommentRecord) =>
      entryKey(comment) === entryKey(first) && bytesOf(comment) === bytes
    commit(records, id, {
      // Where the file is deleted they go on saying that this is to be decided on by itself.
      decisions: deleted.has(entryKey(first)) ? [] : said.map((from) => ({ from, to: null })),
      comments: comments
        .filter(isOfThese)
        .map((from) => ({ from, to: { ...from, ...placesIn(file, [], true)[0], hunk: null } })),
    })
  }
}

function carry(records: ChangesetRecords, id: DispatchId, was: FileView, file: FileView): void {
  const isOf = (record: { root: string; path: string }) => entryKey(record) === entryKey(was.entry)
  // Where the hunks of a file that was there before are found by its old name, they stay under it.
  const isFound = file.from?.path === was.entry.path
  const isSame = sameSide(was.entry.result, file.entry.result)
  const moved = <R extends DecisionRecord | CommentRecord>(from: R) => {
    const to = { ...from, path: file.entry.path }
    // The new name is nothing anybody has approved; what nobody wanted is not wanted under it either.
    const holds = from.hunk === null && isSame && isOnFile(from, was)
    const isApproval = 'verdict' in from && from.verdict === 'approve'
    return { from, to: holds && !isApproval ? { ...to, anchor: anchorOfWhole(file) } : to }
  }
  const follows = (record: DecisionRecord | CommentRecord) =>
    isOf(record) && (!isFound || record.hunk === null)
  commit(records, id, {
    decisions: records.decisions(id).filter(follows).map(moved),
    comments: records.comments(id).filter(follows).map(moved),
  })
}

function commit(records: ChangesetRecords, id: DispatchId, moves: Moves): void {
  const isMove = ({ from, to }: { from: CommentRecord | DecisionRecord; to: typeof from | null }) =>
    to === null || from.path !== to.path || from.hunk !== to.hunk || from.anchor !== to.anchor
  const decisions = moves.decisions.filter(isMove)
  const comments = moves.comments.filter(isMove)
  if (decisions.length + comments.length > 0) records.move(id, { decisions, comments })
}
