import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { RepoId } from '../../../shared/ids.ts'
import type { Layout } from '../../base/paths.ts'
import { packedObjects } from './packedObjects.ts'

/**
 * Which changeset each pack of a project's store was written for: the one that names most of what is in it, since
 * contents are shared and ids of one second tell nothing of their order. One whose changeset is gone is nobody's.
 */
export async function packOwners(layout: Layout, repoId: RepoId): Promise<ReadonlyMap<string, string>> {
  const folder = join(layout.objects(repoId), 'objects', 'pack')
  const indexes = (await readdir(folder).catch((): string[] => [])).filter((name) => name.endsWith('.idx'))
  const packOf = new Map<string, string[]>()
  for (const index of indexes) {
    const bytes = await readFile(join(folder, index)).catch(() => null)
    const pack = index.slice(0, -'.idx'.length)
    for (const oid of (bytes === null ? null : packedObjects(bytes)) ?? [])
      packOf.set(oid, [...(packOf.get(oid) ?? []), pack])
  }
  const best = new Map<string, { readonly id: string; readonly count: number }>()
  const changesets = join(layout.repo(repoId), 'changesets')
  for (const id of (await readdir(changesets).catch((): string[] => [])).sort()) {
    const counts = new Map<string, number>()
    for (const oid of await namedIn(join(changesets, id)))
      for (const pack of packOf.get(oid) ?? []) counts.set(pack, (counts.get(pack) ?? 0) + 1)
    for (const [pack, count] of counts)
      if (count > (best.get(pack)?.count ?? 0)) best.set(pack, { id, count })
  }
  return new Map([...best].map(([pack, { id }]) => [pack, id]))
}

async function namedIn(folder: string): Promise<ReadonlySet<string>> {
  const named = new Set<string>()
  const files = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  for (const file of files) {
    if (!file.isFile()) continue
    const text = await readFile(join(file.parentPath, file.name), 'latin1').catch(() => '')
    for (const [oid] of text.matchAll(/\b[0-9a-f]{40}\b/g)) named.add(oid)
  }
  return named
}
