import type { ChangedFile, Provenance } from '../../shared/changeset.ts'

const sameOrigin = (a: Provenance | null | undefined, b: Provenance | null | undefined) =>
  a?.seq === b?.seq && a?.certain === b?.certain

/** The one event that wrote all of it, if it was one: then it is said once and not at each hunk. */
export function commonOrigin(files: readonly ChangedFile[]): Provenance | null {
  const known = files.flatMap((file) => file.hunks.flatMap((hunk) => hunk.provenance ?? []))
  const [first] = known
  return first !== undefined && known.every((other) => sameOrigin(first, other)) ? first : null
}

/** What to say about the origin of a hunk: nothing where the hunk before it says the same. */
export function originOf(file: ChangedFile, hunk: number, common: Provenance | null): Provenance | null {
  const own = file.hunks[hunk]?.provenance ?? null
  if (own === null || common !== null) return null
  return hunk > 0 && sameOrigin(own, file.hunks[hunk - 1]?.provenance) ? null : own
}

export const originWords = (origin: Provenance): string =>
  `${origin.certain ? 'Written' : 'Likely written'} by ${origin.title}`
