import { join } from 'node:path'
import { git } from '../../base/git.ts'
import { createRepoLock } from '../../base/lock.ts'
import { assertOwnGit } from '../../base/ownGit.ts'
import { repoIdOf, type Layout } from '../../base/paths.ts'
import { borrowersOf, faultOf } from './borrowed.ts'
import { initBare } from './commits.ts'
import { isInside } from '../find/pathSafety.ts'
import type { Project } from '../find/project.ts'

/** A folder of ours, and where a sandbox shows it read-only. */
export type Lent = { readonly source: string; readonly target: string }

/**
 * Stands in for the folders that a project's repositories borrow objects from: a copy of what their own refs reach and
 * nothing else. Who made a checkout can name any of the user's repositories in it, but not what he does not know of
 * it; the folder itself would show him all of it. (escape: borrowed-objects)
 */
export async function lendObjects(
  layout: Layout,
  project: Pick<Project, 'roots'>,
  note: (text: string) => void,
): Promise<Lent[]> {
  const lent: Lent[] = []
  for (const borrower of borrowersOf(project)) {
    if ((await faultOf(borrower, project)) !== null) continue
    const source = await copyReachable(layout, borrower.commonDir).catch((error: unknown) => {
      note(`git does not work inside: ${error instanceof Error ? error.message : String(error)}`)
      return null
    })
    if (source === null) continue
    const targets = borrower.folders.filter((folder) => !isInside(folder, layout.dataDir))
    lent.push(...targets.map((target) => ({ source, target })))
  }
  return lent
}

async function copyReachable(layout: Layout, commonDir: string): Promise<string> {
  await assertOwnGit(commonDir)
  const repoId = repoIdOf(commonDir)
  const copy = join(layout.repo(repoId), 'lent.git')
  const objects = join(copy, 'objects')
  await using _lock = await createRepoLock(layout).acquire(`lent-${repoId}`)
  await initBare(copy, commonDir)
  const tips = await tipsOf(commonDir)
  const known = new Set(await tipsOf(copy))
  const fresh = tips.filter((tip) => !known.has(tip))
  if (fresh.length === 0) return objects
  const input = `${[...fresh, ...[...known].map((tip) => `^${tip}`)].join('\n')}\n`
  const pack = ['pack-objects', '--revs', '--indexed-objects', '--quiet', '--delta-base-offset']
  await git([...pack, '--end-of-options', join(objects, 'pack', 'pack')], { gitDir: commonDir, input })
  // What was copied once is known by its tips; the next start copies only what is new.
  const updates = fresh.map((tip) => `update refs/lent/${tip} ${tip}\n`).join('')
  await git(['update-ref', '--stdin'], { gitDir: copy, input: updates })
  return objects
}

async function tipsOf(gitDir: string): Promise<string[]> {
  const listed = await git(['for-each-ref', '--format=%(objectname)'], { gitDir })
  const heads = await git(['rev-list', '--no-walk', '--ignore-missing', '--all'], { gitDir })
  return [...new Set(`${listed}\n${heads}`.split('\n').filter(Boolean))]
}
