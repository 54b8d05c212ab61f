import { lstat, readdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import type { DispatchDiskUse } from '../../shared/disk.ts'
import { isDispatchId } from '../../shared/ids.ts'
import { layout } from '../base/paths.ts'

type Share = keyof Omit<DispatchDiskUse, 'id' | 'total' | 'unreadable'>
type SharedUse = { records: number; backups: number; objects: number; other: number }

/** Who pays for a path under the data folder. */
type Owner = { readonly id: string; readonly share: Share } | { readonly shared: keyof SharedUse }

const emptyUse = (id: string): DispatchDiskUse => ({
  id,
  workspace: 0,
  captures: 0,
  events: 0,
  output: 0,
  other: 0,
  total: 0,
  unreadable: 0,
})

/** `repos/<repo>/objects.git/objects/pack/pack-….pack`: nothing deeper changes who pays. */
const decidingNames = 6

/** By the name of a pack without its ending: whose capture wrote it. */
type PackOwners = ReadonlyMap<string, string>
const slash = Buffer.from('/')

function ownerOf(names: readonly string[], packs: PackOwners): Owner {
  const [first = '', second = '', kind = '', id = '', file = '', inner = ''] = names
  if (first === 'repos' && isDispatchId(id)) {
    if (kind === 'sandboxes') return { id, share: 'workspace' }
    if (kind === 'invocations') {
      if (file.startsWith('events.ndjson')) return { id, share: 'events' }
      return { id, share: file.startsWith('output.log') ? 'output' : 'other' }
    }
    if (kind === 'changesets') return { id, share: 'other' }
  }
  if (first === 'repos' && kind === 'objects.git') {
    const captor = packs.get(inner.replace(/\.\w+$/, ''))
    return captor === undefined ? { shared: 'objects' } : { id: captor, share: 'captures' }
  }
  if (first === 'archive' && isDispatchId(second)) return { id: second, share: 'other' }
  if (first.startsWith('orangery.db.v')) return { shared: 'backups' }
  if (first.startsWith('orangery.db')) return { shared: 'records' }
  return { shared: first === 'backups' ? 'backups' : 'other' }
}

/** Adds up a data folder without following a link and without counting a file of several names twice. */
class DiskCount {
  readonly dispatches = new Map<string, DispatchDiskUse>()
  readonly shared: SharedUse = { records: 0, backups: 0, objects: 0, other: 0 }
  readonly #seen = new Set<string>()
  readonly #packs: PackOwners

  constructor(packs: PackOwners) {
    this.#packs = packs
  }

  /** `names` leads from the data folder to the path. Paths stay bytes: an agent's names need not be text. */
  async add(path: Buffer, names: readonly string[]): Promise<void> {
    const facts = await lstat(path, { bigint: true }).catch(() => null)
    if (facts === null) return
    const owner = ownerOf(names, this.#packs)
    if (!facts.isDirectory() && facts.nlink > 1n) {
      const file = `${facts.dev}:${facts.ino}`
      if (this.#seen.has(file)) return
      this.#seen.add(file)
    }
    this.#charge(owner, Number(facts.blocks) * 512)
    if (!facts.isDirectory()) return
    try {
      for (const entry of await readdir(path, { encoding: 'buffer' })) {
        const inner = names.length < decidingNames ? [...names, entry.toString('utf8')] : names
        await this.add(Buffer.concat([path, slash, entry]), inner)
      }
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code !== 'EACCES' && code !== 'EPERM' && code !== 'ENOENT') throw error
      if (code !== 'ENOENT' && 'id' in owner) this.#useOf(owner.id).unreadable++
    }
  }

  #useOf(id: string): DispatchDiskUse {
    let use = this.dispatches.get(id)
    if (use === undefined) this.dispatches.set(id, (use = emptyUse(id)))
    return use
  }

  #charge(owner: Owner, bytes: number): void {
    if ('shared' in owner) this.shared[owner.shared] += bytes
    else {
      const use = this.#useOf(owner.id)
      use[owner.share] += bytes
      use.total += bytes
    }
  }
}

/** What one dispatch costs, but for its captures. */
export async function diskUse(dataDir: string, id: string): Promise<DispatchDiskUse> {
  if (!isDispatchId(id)) return emptyUse(id)
  const count = new DiskCount(new Map())
  const repos = await readdir(layout(dataDir).repos).catch((): string[] => [])
  const folders = repos.flatMap((repo) =>
    ['invocations', 'sandboxes', 'changesets'].map((kind) => ['repos', repo, kind, id]),
  )
  for (const names of [...folders, ['archive', id]])
    await count.add(Buffer.from(join(dataDir, ...names)), names)
  return count.dispatches.get(id) ?? emptyUse(id)
}

/** What everything under the data folder costs: each dispatch, and what they share. */
export async function diskUseOfAll(
  dataDir: string,
  packs: PackOwners = new Map(),
): Promise<{ readonly dispatches: readonly DispatchDiskUse[]; readonly shared: SharedUse }> {
  const count = new DiskCount(packs)
  // Named by a link it is counted where it lies.
  await count.add(Buffer.from(await realpath(dataDir).catch(() => dataDir)), [])
  return { dispatches: [...count.dispatches.values()], shared: count.shared }
}
