import type { Decision } from '../../../shared/changeset.ts'
import { namedPath, parentOf, toText } from '../bytePath.ts'
import { entryKey, type Entry, type Side } from '../manifest.ts'
import type { PatchHunk } from './patch.ts'
import type { Decisions } from './decisions.ts'
import type { FileView, View } from './view.ts'

/** A path that is to become something, and what it was when the agent started. */
export type Target = {
  readonly entry: Entry
  /** What shall be there. For a part of the hunks this is neither base nor result. */
  readonly wanted: Wanted
  readonly file: FileView | null
  /** What it was before, if that is sure: what the user has there is woven in. */
  readonly from?: Entry
  /** Gone with a rename that is none for sure: the user is asked of it as of a file that was deleted. */
  readonly apart?: boolean
}
export type Wanted =
  | { readonly kind: 'side'; readonly side: Side | null }
  | {
      readonly kind: 'hunks'
      readonly from: Side
      readonly mode: number
      readonly hunks: readonly PatchHunk[]
    }

export type Skip = {
  readonly root: string
  readonly path: string
  readonly path_b64?: string
  readonly why: string
}
/** `byAll`: "approve all" may speak for what nobody has decided. */
export type Approved = {
  readonly file: FileView
  readonly hunks: readonly PatchHunk[]
  readonly isWhole: boolean
  readonly byAll: boolean
}
export type SelectOptions = { readonly all: boolean; readonly includeIgnored: boolean }

/** Which files and hunks count as approved, once "approve all" has spoken for those it may speak for. */
export function selectTargets(
  view: View,
  decisions: Decisions,
  options: SelectOptions,
): {
  targets: readonly Target[]
  skipped: readonly Skip[]
  approved: readonly Approved[]
} {
  const targets: Target[] = []
  const skipped: Skip[] = []
  const approved: Approved[] = []
  const chosen = new Set<string>()
  for (const file of view.files) {
    const path = { root: file.entry.root, ...namedPath(file.entry.path) }
    if (file.entry.refused !== null) {
      skipped.push({ ...path, why: file.entry.refused })
      continue
    }
    // With a new file beside it, it may be what was rejected, moved: half of that would land.
    const isAskedAgain = decisions.isRejectedThenDeleted(file)
    const mayApproveAll =
      options.all && !file.protected && !isAskedAgain && (!file.ignored || options.includeIgnored)
    const verdictOf = (decision: Decision): Decision => decision ?? (mayApproveAll ? 'approve' : null)
    const whole = verdictOf(file.hunks.length === 0 ? decisions.ofWhole(file) : decisions.ofFile(file))
    const hunks = file.hunks.filter((hunk) => verdictOf(decisions.ofHunk(file, hunk)) === 'approve')
    const isShapeApproved =
      verdictOf(decisions.ofWhole(file)) === 'approve' || decisions.isShapeApproved(file, hunks)
    const isWhole =
      file.hunks.length === 0 ? whole === 'approve' : hunks.length === file.hunks.length && isShapeApproved
    const part = isWhole ? null : partial(file, hunks)
    if (!isWhole && hunks.length === 0) {
      skipped.push({ ...path, why: reason(whole, file, isAskedAgain) })
      continue
    }
    if (!isWhole) skipped.push({ ...path, why: partialReason(file, hunks) })
    if (!isWhole && part === null) continue
    approved.push({ file, hunks, isWhole, byAll: mayApproveAll })
    if (part !== null && file.from !== null) {
      // The name is not approved yet: the text lands under the old one, and both folders stay as they are.
      targets.push({ entry: file.from, file, wanted: part })
      continue
    }
    chosen.add(entryKey(file.entry))
    targets.push({
      entry: file.entry,
      file,
      wanted: part ?? { kind: 'side', side: file.entry.result },
    })
    if (file.from !== null) {
      chosen.add(entryKey(file.from))
      targets.push({ entry: file.from, file: null, wanted: { kind: 'side', side: file.from.result } })
    }
  }
  return { targets: [...targets, ...impliedTargets(view, chosen)], skipped, approved }
}

/** Null: what comes, goes or changes its kind as a whole cannot be landed hunk by hunk. */
function partial(file: FileView, hunks: readonly PatchHunk[]): Wanted | null {
  const from = (file.from ?? file.entry).base
  if (from?.kind !== 'file' || file.entry.result?.kind !== 'file') return null
  // Set-id bits never land, the user's own neither: were they said to, what is left would be compared with a file
  // that has them, and the next apply would take our own for a change of the user's.
  return { kind: 'hunks', from, mode: from.mode & 0o777, hunks }
}
function partialReason(file: FileView, hunks: readonly PatchHunk[]): string {
  const name = file.from === null ? '' : `; it keeps the name ${toText(file.from.path)} until all of it is`
  return hunks.length < file.hunks.length
    ? `${hunks.length} of ${file.hunks.length} hunks are approved${name}`
    : `its text is approved, its kind, mode or name is not${name}`
}

/** Folders follow what is in them: made for the first file that lands, removed with the last one that goes. */
function impliedTargets(view: View, chosen: ReadonlySet<string>): Target[] {
  const landing = new Set<string>()
  const staying = new Set<string>()
  for (const { entry, from } of view.files) {
    for (const each of from === null ? [entry] : [entry, from]) {
      const parents = chosen.has(entryKey(each)) ? landing : staying
      for (let at = parentOf(each.path); at !== ''; at = parentOf(at)) {
        const key = entryKey({ root: each.root, path: at })
        if (parents.has(key)) break
        parents.add(key)
      }
    }
  }
  return view.implied
    .filter((entry) => (entry.result === null ? !staying.has(entryKey(entry)) : landing.has(entryKey(entry))))
    .map((entry): Target => ({ entry, file: null, wanted: { kind: 'side', side: entry.result } }))
}

function reason(decision: Decision, file: FileView, isAskedAgain: boolean): string {
  if (decision === 'reject') return 'rejected'
  if (decision === 'rework') return 'sent back for rework'
  if (isAskedAgain) return 'you rejected a change of it, and the agent has deleted it since: decide again'
  if (file.protected) return 'protected: it needs a decision of its own'
  if (file.ignored) return 'ignored by git: it lands only when asked for'
  return 'not approved'
}
