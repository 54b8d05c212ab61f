import { readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { RepoId } from '../../../shared/ids.ts'
import { tryGit } from '../../base/git.ts'
import { packedObjects } from './packedObjects.ts'
import type { ApplyContext } from '../apply/transaction.ts'

/** A pack is written before what refers to it: a young one may be needed by something that is not there yet. */
const youngMs = 24 * 60 * 60 * 1000

/**
 * Throws away packs of a project's store that hold nothing that is needed, or nothing that no other pack holds
 * too. Needed is whatever any file of any changeset that is still there names, open or not, with all that its
 * trees hold. A pack goes as a whole or stays.
 */
export async function collectObjects(context: ApplyContext, repoId: RepoId, now: number): Promise<void> {
  const gitDir = context.layout.objects(repoId)
  const folder = join(gitDir, 'objects', 'pack')
  const names = await readdir(folder).catch((): string[] => [])
  const packs = new Map<string, readonly string[]>()
  const old: string[] = []
  for (const name of names.filter((each) => /^pack-[0-9a-f]{40}\.pack$/.test(each))) {
    const pack = name.slice(0, -'.pack'.length)
    const oids = names.includes(`${pack}.idx`)
      ? packedObjects(await readFile(join(folder, `${pack}.idx`)))
      : []
    if (oids === null) return
    packs.set(pack, oids)
    if ((await stat(join(folder, name))).mtimeMs < now - youngMs) old.push(pack)
  }
  if (old.length === 0) return
  const needed = await neededObjects(context, repoId, gitDir)
  if (needed === null) return
  // A young pack may not be on disk for good yet: what it holds does not count.
  const copies = new Map<string, number>()
  for (const pack of old) for (const oid of packs.get(pack) ?? []) copies.set(oid, (copies.get(oid) ?? 0) + 1)
  for (const pack of old) {
    const oids = packs.get(pack) ?? []
    if (oids.some((oid) => needed.has(oid) && copies.get(oid) === 1)) continue
    for (const oid of oids) copies.set(oid, (copies.get(oid) ?? 1) - 1)
    // git looks for the index: it goes first, and a pack without one is nobody's.
    for (const ending of ['idx', 'rev', 'pack']) await rm(join(folder, `${pack}.${ending}`), { force: true })
  }
}

/** Null where it cannot be told for sure. */
async function neededObjects(
  { layout, records }: ApplyContext,
  repoId: RepoId,
  gitDir: string,
): Promise<ReadonlySet<string> | null> {
  const named = new Set<string>()
  const changesets = join(layout.repo(repoId), 'changesets')
  const files = await readdir(changesets, { recursive: true, withFileTypes: true }).catch(() => null)
  const own = records.list().filter((record) => record.repoId === repoId)
  if (files === null && own.length > 0) return null
  for (const file of files ?? []) {
    if (!file.isFile()) continue
    const text = await readFile(join(file.parentPath, file.name), 'latin1')
    // Commits need what the user's repository has and ours lacks: git cannot walk them here.
    if (text.includes('"commits":[{')) return null
    for (const [oid] of text.matchAll(/\b[0-9a-f]{40}\b/g)) named.add(oid)
  }
  for (const { id } of own)
    for (const { content } of records.resolutions(id)) if (content !== null) named.add(content)
  if (named.size === 0) return named
  const check = ['cat-file', '--batch-check=%(objectname) %(objecttype)']
  const kinds = await tryGit(check, { gitDir, input: `${[...named].join('\n')}\n` })
  if (kinds.code !== 0) return null
  const trees = [...kinds.stdout.toString().matchAll(/^([0-9a-f]{40}) tree$/gm)].map(([, oid]) => oid)
  if (trees.length === 0) return named
  const input = `${trees.join('\n')}\n`
  const walk = await tryGit(['rev-list', '--objects', '--stdin'], { gitDir, input })
  if (walk.code !== 0) return null
  for (const [, oid] of walk.stdout.toString('latin1').matchAll(/^([0-9a-f]{40})/gm))
    if (oid !== undefined) named.add(oid)
  return named
}
