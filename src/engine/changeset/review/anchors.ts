import { createHash } from 'node:crypto'
import type { DecisionPlace } from '../../base/changesetRecords.ts'
import type { Side } from '../manifest.ts'
import { contentOfHunk, type PatchHunk } from './patch.ts'
import type { FileView } from './view.ts'

/**
 * What a decision or comment was made on, as it is stored: the file's anchor, the agent's version of it, and for a
 * hunk where it stood in the base and in that version. Between two captures the base is the same, between two
 * applies the agent's version is: one of the two tells a hunk from another that says the same elsewhere.
 */
type Anchor = {
  readonly file: string
  readonly result: string
  readonly inBase: string
  readonly inResult: string
}
type Anchored = DecisionPlace & { readonly anchor: string; readonly at: string }

function parse(anchor: string): Anchor {
  const [file = '', result = '', inBase = '', inResult = ''] = anchor.split(' ')
  return { file, result, inBase, inResult }
}

const nameOf = (side: Side | null) => (side !== null && 'sha256' in side ? side.sha256.slice(0, 32) : '-')
const inBase = ({ entry, from }: FileView, hunk: PatchHunk) =>
  `${nameOf((from ?? entry).base)}:${hunk.oldStart}`
const inResult = ({ entry }: FileView, hunk: PatchHunk) => `${nameOf(entry.result)}:${hunk.newStart}`

export function anchorOfWhole(file: FileView): string {
  return `${file.anchor} ${nameOf(file.entry.result)}`
}
/** `seen`: the version of the file that the hunk was seen in, where that is another one. */
function anchorOfHunk(file: FileView, hunk: PatchHunk, seen: string = file.anchor): string {
  return `${seen} ${nameOf(file.entry.result)} ${inBase(file, hunk)} ${inResult(file, hunk)}`
}

/** What a decision on a hunk is stored under: one on an equal hunk elsewhere keeps its own. */
export function storedName(file: FileView, hunk: PatchHunk): string {
  const place = createHash('sha256').update(inBase(file, hunk)).digest('hex').slice(0, 8)
  return `${contentOfHunk(hunk.id)}-${place}`
}

/** In the place of a file's anchor, which it never equals. */
export const unknownVersion = '-'

/** Hunks as records name them, and after them the whole. `seen`: as for `anchorOfHunk`. */
export function placesIn(file: FileView, hunks: readonly PatchHunk[], withWhole: boolean, seen?: string) {
  const { root, path } = file.entry
  return [
    ...hunks.map((hunk) => ({
      root,
      path,
      hunk: storedName(file, hunk),
      // Seen in another version, it does not speak for the mode and name that the file has now.
      anchor: anchorOfHunk(file, hunk, withWhole ? file.anchor : seen),
    })),
    ...(withWhole ? [{ root, path, hunk: null, anchor: anchorOfWhole(file) }] : []),
  ]
}

/** Where the hunk stands now; what the file was when it was decided on stays said. */
export function movedAnchor({ anchor }: Anchored, file: FileView, hunk: PatchHunk): string {
  const { file: decided, result } = parse(anchor)
  // One without a place was valid just now; which version it was made on is not known, and this one will do.
  return `${decided} ${result || nameOf(file.entry.result)} ${inBase(file, hunk)} ${inResult(file, hunk)}`
}

export const fileAnchorOf = ({ anchor }: Anchored): string => parse(anchor).file
export const isOnFile = (record: Anchored, file: FileView): boolean => fileAnchorOf(record) === file.anchor

/** The agent has written the file since. */
export function isOnOtherVersion(record: Anchored, file: FileView): boolean {
  const { result } = parse(record.anchor)
  return result === '' ? !isOnFile(record, file) : result !== nameOf(file.entry.result)
}

export const hasNoPlace = (record: Anchored): boolean =>
  record.hunk !== null && parse(record.anchor).inBase === ''

/** The agent's version that a record was made on. */
export const versionOf = ({ anchor }: Anchored): string => parse(anchor).result
/** The bytes that a record speaks of as a whole: those of a file, or of a hunk that is all of a new one. */
export function bytesOf({ hunk, anchor }: Anchored): string | null {
  const { result, inBase: place } = parse(anchor)
  return (hunk === null || place.startsWith('-:')) && result.length > 1 ? result : null
}
/** Null where there are none that would tell it from another one. */
export function bytesOfFile({ entry: { result } }: FileView): string | null {
  return result?.kind === 'file' && result.size > 0 ? nameOf(result) : null
}

/** Every place by which a record may be found: by the base first. One of before places were kept has its content alone. */
export function placesOf({ hunk, anchor }: Anchored): readonly string[] {
  if (hunk === null) return []
  const content = contentOfHunk(hunk)
  const place = parse(anchor)
  return place.inBase === '' ? [content] : [`${content} < ${place.inBase}`, `${content} > ${place.inResult}`]
}
export function placesOfHunk(file: FileView, hunk: PatchHunk): readonly string[] {
  const content = contentOfHunk(hunk.id)
  return [`${content} < ${inBase(file, hunk)}`, `${content} > ${inResult(file, hunk)}`]
}

/**
 * Whether a record of before places were kept is about this hunk: equal ones had their order for a name then, which
 * says something only while the file is what it was.
 */
export function isPlacelessAbout(record: Anchored, file: FileView, hunk: PatchHunk): boolean {
  const content = contentOfHunk(hunk.id)
  if (record.hunk === null || placesOf(record)[0] !== content) return false
  const equals = file.hunks.filter((each) => contentOfHunk(each.id) === content)
  const ordinal = Number(/-(\d+)$/.exec(record.hunk)?.[1] ?? 1)
  return isOnFile(record, file) ? ordinal === equals.indexOf(hunk) + 1 : ordinal === 1 && equals.length === 1
}

/** Equal text elsewhere in the file is another hunk. */
export function isAbout(record: Anchored, file: FileView, hunk: PatchHunk): boolean {
  const places = placesOfHunk(file, hunk)
  return placesOf(record).some((place) => places.includes(place)) || isPlacelessAbout(record, file, hunk)
}
