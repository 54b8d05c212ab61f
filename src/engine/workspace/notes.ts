import type { Repository } from './repository.ts'

/** What is in the user's checkout and will not be in a fresh one, as sentences. */
export async function checkoutNotes(
  repository: Repository,
  checkout: string | null,
  commit: string,
): Promise<string[]> {
  const notes: string[] = []
  if (checkout !== null) {
    const status = await repository.try(['status', '--porcelain', '-z', '--ignore-submodules=all'], {
      cwd: checkout,
    })
    const changed = status.code === 0 ? changedPaths(status.stdout.toString()) : []
    if (changed.length > 0) {
      notes.push(`uncommitted work in ${checkout} is not in this tree: ${someOf(changed)}`)
    }
  }
  if ((await repository.git(['ls-tree', '--full-tree', '--name-only', commit, '.gitmodules'])) === '')
    return notes
  const links = (await repository.git(['ls-tree', '-r', '-z', '--full-tree', commit]))
    .split('\0')
    .filter((entry) => entry.startsWith('160000 '))
    .map((entry) => entry.slice(entry.indexOf('\t') + 1))
  if (links.length > 0) {
    notes.push(
      `submodules are empty in this tree: ${someOf(links)}; the overlay strategy has them as they are`,
    )
  }
  return notes
}

/** Paths of `git status --porcelain -z`. */
export function changedPaths(status: string): string[] {
  const fields = status.split('\0').filter((field) => field !== '')
  const paths: string[] = []
  for (let index = 0; index < fields.length; index += 1) {
    const field = fields[index] as string
    paths.push(field.slice(3))
    // A rename names its former path in a field of its own.
    if (field.startsWith('R') || field.startsWith('C')) index += 1
  }
  return paths
}

function someOf(paths: readonly string[]): string {
  const shown = paths.slice(0, 5).join(', ')
  return paths.length > 5 ? `${shown} and ${paths.length - 5} more` : shown
}
