import { realpath } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import { findGit, type GitPlace } from '../../base/findGit.ts'

/**
 * A checkout's claim to a repository counts where the repository is its own, or knows of it; anything else, a bare
 * repository and the inside of a `.git` too, is a project by itself. (escape: borrowed-trust)
 */
async function placeOf(folder: string): Promise<GitPlace | null> {
  const place = await findGit(folder).catch(() => null)
  return place !== null && place.confirmed && place.top !== place.commonDir ? place : null
}

/** Names a folder by its repository, the same in each of its worktrees; null where there is none. */
export async function repositoryOf(folder: string): Promise<string | null> {
  const place = await placeOf(folder)
  return place === null ? null : `${place.commonDir}//${relative(place.top, folder)}`
}

export const isLinkedWorktree = async (folder: string): Promise<boolean> =>
  (await placeOf(folder))?.linked === true

/** A folder of a linked worktree as it is in the main one. */
export type Twin = {
  readonly folder: string
  /** The top of the main worktree, and that of this one. */
  readonly main: string
  readonly top: string
}

/** Null in a main worktree, beside a bare repository, and where the main one has no such folder. */
export async function twinOf(folder: string): Promise<Twin | null> {
  const real = await realpath(folder).catch(() => folder)
  const place = await placeOf(real)
  if (place === null || !place.linked || basename(place.commonDir) !== '.git') return null
  const main = dirname(place.commonDir)
  const twin = await realpath(join(main, relative(place.top, real))).catch(() => null)
  const isThere = twin !== null && (twin === main || twin.startsWith(`${main}/`))
  return isThere ? { folder: twin, main, top: place.top } : null
}
