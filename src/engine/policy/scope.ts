import { boundaryLevels, boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import { namesRoot, type EffectiveConfig } from '../../shared/config.ts'
import type { WritableScopes } from '../base/contract.ts'

type Levels = EffectiveConfig['sandboxLevels']

export const isInside = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder.endsWith('/') ? folder : `${folder}/`)

/**
 * What the config leaves writable at a level, relative to the first root; null: all of the workspace. A level above
 * `readonly` without a list has that of the level below: who is given a host must not be given files by it.
 */
export function writableOf(levels: Levels, level: BoundaryLevel): readonly string[] | null {
  if (level === 'readonly') return levels.readonly.writable ?? []
  const below = boundaryLevels.slice(boundaryRank('readwrite'), boundaryRank(level) + 1)
  const list = below.map((each) => levels[each].writable).findLast((paths) => paths !== null) ?? null
  return list?.some(namesRoot) === true ? null : list
}

/** Paths that both lists allow: of a folder and what lies in it, what lies in it. */
export function commonPaths(
  a: readonly string[] | null,
  b: readonly string[] | null,
): readonly string[] | null {
  if (a === null || b === null) return a ?? b
  const covered = (paths: readonly string[], by: readonly string[]) =>
    paths.filter((path) => by.some((folder) => isInside(path, folder)))
  return [...new Set([...covered(a, b), ...covered(b, a)])]
}

/** What a contract leaves writable at a level, absolute; null: all of its workspace. */
export const scopeAt = (
  { writableFiles, writableAt }: WritableScopes,
  level: BoundaryLevel,
): readonly string[] | null => (level === 'readonly' ? writableFiles : (writableAt?.[level] ?? null))

export const isInScope = (scope: readonly string[] | null, path: string): boolean =>
  scope === null || scope.some((place) => isInside(path, place))

/** The lowest level above this one at which all of these paths can be written; null: there is none. */
export function levelForWriting(
  scopes: WritableScopes,
  level: BoundaryLevel,
  paths: readonly string[],
): BoundaryLevel | null {
  const above = boundaryLevels.slice(boundaryRank(level) + 1)
  return above.find((each) => paths.every((path) => isInScope(scopeAt(scopes, each), path))) ?? null
}

/** Every place that can be written at some level: each is a mount of its own, which no level makes later. */
export const writablePlaces = (scopes: WritableScopes): readonly string[] => [
  ...new Set(boundaryLevels.flatMap((level) => scopeAt(scopes, level) ?? [])),
]
