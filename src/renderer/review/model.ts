import type { ChangedFile, Changeset, Decision, Verdict } from '../../shared/changeset.ts'

export type FileKey = string
export const keyOf = (file: Pick<ChangedFile, 'root' | 'path' | 'path_b64'>): FileKey =>
  `${file.root}\n${file.path_b64 ?? file.path}`

/** How to tell the engine which file is meant: by its bytes too, where its name is not UTF-8. */
export const placeOf = ({ root, path, path_b64 }: Pick<ChangedFile, 'root' | 'path' | 'path_b64'>) => ({
  root,
  path,
  ...(path_b64 === undefined ? {} : { path_b64 }),
})

/** What a decision is about: a file or a hunk of it, and the version that is shown, since its agent may have written it since. */
export function decidedOn(file: ChangedFile, hunk: number | null) {
  const name = hunk === null ? undefined : file.hunks[hunk]?.id
  return {
    ...placeOf(file),
    ...(name === undefined ? {} : { hunk: name }),
    ...(file.anchor === undefined ? {} : { anchor: file.anchor }),
  }
}

/** A file's state follows from its hunks; without hunks it is the file's own. */
export type FileState = 'approved' | 'rejected' | 'rework' | 'partial' | 'open'

const stateOfVerdict: Readonly<Record<Verdict, FileState>> = {
  approve: 'approved',
  reject: 'rejected',
  rework: 'rework',
}

export function stateOf(file: Pick<ChangedFile, 'hunks' | 'decision'>): FileState {
  const decisions: Decision[] =
    file.hunks.length === 0 ? [file.decision] : file.hunks.map((hunk) => hunk.decision ?? file.decision)
  const first = decisions[0] ?? null
  if (decisions.every((decision) => decision === first))
    return first === null ? 'open' : stateOfVerdict[first]
  return 'partial'
}

export const decisionOf = (file: ChangedFile, hunk: number): Decision =>
  file.hunks[hunk]?.decision ?? file.decision

export type FormerDecision = { readonly hunk: number | null; readonly verdict: Decision }

/** What to decide again so that a file is as it was before a decision on it, or on one of its hunks. */
export function formerDecisions(file: ChangedFile, hunk: number | null): readonly FormerDecision[] {
  if (hunk !== null) return [{ hunk, verdict: decisionOf(file, hunk) }]
  if (stateOf(file) !== 'partial')
    return [{ hunk: null, verdict: file.hunks.length === 0 ? file.decision : decisionOf(file, 0) }]
  const decided = file.hunks.map((_, at) => ({ hunk: at, verdict: decisionOf(file, at) }))
  return [{ hunk: null, verdict: null }, ...decided.filter(({ verdict }) => verdict !== null)]
}

export type Section = 'protected' | 'source' | 'tests' | 'config' | 'generated' | 'ignored' | 'refused'
export const sectionWords: Readonly<Record<Section, string>> = {
  protected: 'Protected',
  source: 'Source',
  tests: 'Tests',
  config: 'Configuration',
  generated: 'Generated',
  ignored: 'Ignored by git',
  refused: 'Cannot land',
}
export const sections = Object.keys(sectionWords) as readonly Section[]

const generated =
  /(^|\/)(package-lock\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|Cargo\.lock|poetry\.lock|uv\.lock|Gemfile\.lock|composer\.lock|go\.sum|flake\.lock)$|\.(min\.(js|css)|map|snap|pb\.go|lock)$|(^|\/)(dist|build|vendor|__snapshots__|generated)\//i
const tests =
  /(^|\/)(tests?|__tests__|spec|e2e)\/|[._-](test|spec)\.[a-z]+$|(^|\/)test_[^/]+\.py$|_test\.(go|rb|exs?)$/i
const config =
  /(^|\/)\.[^/]+$|\.(json|ya?ml|toml|ini|cfg|conf|properties|env)$|(^|\/)(Makefile|Dockerfile|[^/]+\.config\.[a-z]+)$/i

/** Files by what reviewing them is worth. */
export function sectionOf(file: Pick<ChangedFile, 'path' | 'protected' | 'ignored' | 'refused'>): Section {
  if (file.refused !== null) return 'refused'
  if (file.protected) return 'protected'
  if (file.ignored) return 'ignored'
  if (generated.test(file.path)) return 'generated'
  if (tests.test(file.path)) return 'tests'
  return config.test(file.path) ? 'config' : 'source'
}

export function inReviewOrder(files: readonly ChangedFile[]): readonly ChangedFile[] {
  const rank = (file: ChangedFile) => sections.indexOf(sectionOf(file))
  return files.toSorted(
    (a, b) =>
      rank(a) - rank(b) || (a.root < b.root ? -1 : a.root > b.root ? 1 : 0) || (a.path < b.path ? -1 : 1),
  )
}

/** Above this many changed lines a diff is shown only when asked for. */
export const gateLines = 500
export const startsCollapsed = (file: ChangedFile): boolean => {
  const section = sectionOf(file)
  return section === 'generated' || section === 'ignored' || file.insertions + file.deletions > gateLines
}

export type Tally = {
  readonly files: number
  readonly decidedFiles: number
  readonly hunks: number
  readonly decidedHunks: number
  readonly approvedFiles: number
  readonly reworkFiles: number
  /** Protected files nobody decided on; never part of "approve all". */
  readonly protectedOpen: number
  readonly ignored: number
  readonly refused: number
  /** Files that "approve all" would take in. */
  readonly openFiles: number
  /** Files that were deleted after a change of them was rejected: each is decided on by itself. */
  readonly askedAgain: number
}

/** How far the review is. Ignored files and those that cannot land are not part of it. */
export function tallyOf(changeset: Pick<Changeset, 'files'>): Tally {
  const counted = changeset.files.filter((file) => file.refused === null && !file.ignored)
  const states = counted.map((file) => ({ file, state: stateOf(file) }))
  const decided = (file: ChangedFile) =>
    file.hunks.length === 0
      ? Number(file.decision !== null)
      : file.hunks.filter((_, at) => decisionOf(file, at) !== null).length
  return {
    files: counted.length,
    decidedFiles: states.filter(({ state }) => state !== 'open' && state !== 'partial').length,
    hunks: counted.reduce((sum, file) => sum + Math.max(1, file.hunks.length), 0),
    decidedHunks: counted.reduce((sum, file) => sum + decided(file), 0),
    approvedFiles: counted.filter((file) =>
      file.hunks.length === 0
        ? file.decision === 'approve'
        : file.hunks.some((_, at) => decisionOf(file, at) === 'approve'),
    ).length,
    reworkFiles: counted.filter((file) =>
      file.hunks.length === 0
        ? file.decision === 'rework'
        : file.hunks.some((_, at) => decisionOf(file, at) === 'rework'),
    ).length,
    protectedOpen: states.filter(
      ({ file, state }) => file.protected && (state === 'open' || state === 'partial'),
    ).length,
    ignored: changeset.files.filter((file) => file.ignored && file.refused === null).length,
    refused: changeset.files.filter((file) => file.refused !== null).length,
    openFiles: states.filter(
      ({ file, state }) =>
        !file.protected && file.asked_again !== true && (state === 'open' || state === 'partial'),
    ).length,
    askedAgain: counted.filter((file) => !file.protected && file.asked_again === true).length,
  }
}

/** What each of several roots is called before a path in it: as much of its end as no other one has. None for one. */
export function rootNames(roots: readonly string[]): ReadonlyMap<string, string> {
  if (roots.length < 2) return new Map()
  const nameOf = (root: string) => {
    const parts = root.split('/').filter(Boolean)
    const ending = (count: number) => `/${parts.slice(-count).join('/')}`
    const isOwn = (count: number) => roots.every((other) => other === root || !other.endsWith(ending(count)))
    const count = parts.findIndex((_, at) => isOwn(at + 1)) + 1
    return count === 0 ? root : ending(count).slice(1)
  }
  return new Map(roots.map((root) => [root, `${nameOf(root)}/`]))
}

/** Where the caret of the review stands: a file, and within it a hunk. */
export type Caret = { readonly file: FileKey; readonly hunk: number }

/** The hunk after or before the caret, over file borders; null at either end. */
export function stepHunk(files: readonly ChangedFile[], caret: Caret | null, by: 1 | -1): Caret | null {
  const stops = files.flatMap((file) =>
    Array.from({ length: Math.max(1, file.hunks.length) }, (_, hunk) => ({ file: keyOf(file), hunk })),
  )
  if (caret === null) return stops[0] ?? null
  const at = stops.findIndex((stop) => stop.file === caret.file && stop.hunk === caret.hunk)
  return stops[at + by] ?? null
}

export function stepFile(files: readonly ChangedFile[], caret: Caret | null, by: 1 | -1): Caret | null {
  const at = files.findIndex((file) => keyOf(file) === caret?.file)
  const next = files[caret === null ? 0 : at + by]
  return next === undefined ? null : { file: keyOf(next), hunk: 0 }
}
