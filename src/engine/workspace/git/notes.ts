import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { markers } from '../../base/markers.ts'
import type { Repository } from './repository.ts'
import { isFolder } from '../find/scan.ts'
import type { FilledSubmodules } from './submodules.ts'

/** Uncommitted work in checkouts of the user, which a fresh one will not have, as sentences. */
export async function uncommittedNotes(
  repository: Repository,
  checkouts: readonly (string | null)[],
): Promise<string[]> {
  const notes: string[] = []
  for (const checkout of new Set(checkouts)) {
    if (checkout === null || !(await isFolder(checkout))) continue
    const status = await repository.try(['status', '--porcelain', '-z', '--ignore-submodules=all'], {
      cwd: checkout,
    })
    const listed = status.code === 0 ? changedPaths(status.stdout.toString()) : []
    const changed: string[] = []
    for (const path of listed) if (!(await holdsMarkersOnly(checkout, path))) changed.push(path)
    if (changed.length > 0) {
      notes.push(`uncommitted work in ${checkout} is not in this tree: ${someOf(changed)}`)
    }
  }
  return notes
}

/** Git tells a folder without files of its own as one, also where its exclude lines for what we put there are gone. */
async function holdsMarkersOnly(checkout: string, path: string): Promise<boolean> {
  if (!markers.some((marker) => marker.startsWith(path) && path.endsWith('/'))) return false
  const names = await readdir(join(checkout, path)).catch(() => null)
  return names !== null && names.every((name) => markers.includes(`${path}${name}`))
}

export function submoduleNotes({ empty }: FilledSubmodules): string[] {
  if (empty.length === 0) return []
  return [
    `submodules are empty in this tree, because their commits are not on this machine: ${someOf(empty)}`,
  ]
}

/** Paths of `git status --porcelain -z`. */
export function changedPaths(status: string): string[] {
  const fields = status.split('\0').filter((field) => field !== '')
  const paths: string[] = []
  for (let index = 0; index < fields.length; index += 1) {
    const field = fields[index] as string
    // Whoever shows the markers to git in a tree of his own has not changed anything by that.
    if (!markers.includes(field.slice(3))) paths.push(field.slice(3))
    // A rename names its former path in a field of its own.
    if (field.startsWith('R') || field.startsWith('C')) index += 1
  }
  // One that was taken out of the index and still lies there is told twice.
  return [...new Set(paths)]
}

/** What `git status --ignored` tells of files and whole folders that git ignores; our markers are nobody's. */
export function ignoredPaths(status: string): string[] {
  return status
    .split('\0')
    .filter((field) => field.startsWith('!! '))
    .map((field) => field.slice(3))
    .filter((path) => !markers.some((marker) => marker === path || marker.startsWith(path)))
}

export function someOf(paths: readonly string[]): string {
  const shown = paths.slice(0, 5).join(', ')
  return paths.length > 5 ? `${shown} and ${paths.length - 5} more` : shown
}
