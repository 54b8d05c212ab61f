import type { DispatchId } from '../../shared/ids.ts'
import type { ChangesetRecord } from '../base/changesetRecords.ts'
import { fromText, isBelow, joinPath, toText, type BytePath } from './bytePath.ts'
import type { Entry, Manifest } from './manifest.ts'

type Touched = { readonly revision: string; readonly paths: ReadonlySet<BytePath> }
const mostNamed = 100

/** Finds files that several open changesets touch, by where they lie, whatever roots and projects these were told with. */
export class Overlaps {
  readonly #read: (record: ChangesetRecord) => Promise<Manifest>
  /** A window asks each second: what a changeset touches is read once per revision. */
  readonly #known = new Map<DispatchId, Touched>()

  constructor(read: (record: ChangesetRecord) => Promise<Manifest>) {
    this.#read = read
  }

  async of(
    record: ChangesetRecord,
    own: Manifest,
    open: readonly ChangesetRecord[],
  ): Promise<{ id: DispatchId; paths: string[] }[]> {
    const ids = new Set(open.map(({ id }) => id))
    for (const id of this.#known.keys()) if (!ids.has(id)) this.#known.delete(id)
    const files = own.entries.filter(isNoFolder).map((entry) => ({ entry, place: placeOf(entry) }))
    const found: { id: DispatchId; paths: string[] }[] = []
    for (const other of open) {
      if (other.id === record.id || !haveCommonFolder(record, other)) continue
      const touched = await this.#touched(other)
      const shared = files.filter(({ place }) => touched.has(place))
      if (shared.length === 0) continue
      found.push({ id: other.id, paths: shared.slice(0, mostNamed).map(({ entry }) => toText(entry.path)) })
    }
    return found
  }

  async #touched(record: ChangesetRecord): Promise<ReadonlySet<BytePath>> {
    const { id, revision } = record
    const known = this.#known.get(id)
    if (known?.revision === revision) return known.paths
    const manifest = await this.#read(record).catch(() => null)
    const paths = new Set((manifest?.entries ?? []).filter(isNoFolder).map(placeOf))
    if (manifest !== null) this.#known.set(id, { revision, paths })
    return paths
  }
}

const placeOf = ({ root, path }: Entry): BytePath => joinPath(fromText(root), path)

function haveCommonFolder(one: ChangesetRecord, other: ChangesetRecord): boolean {
  const [own, theirs] = [one, other].map(({ workspace }) => workspace.roots.map(({ path }) => fromText(path)))
  return (own ?? []).some((root) =>
    (theirs ?? []).some((each) => each === root || isBelow(each, root) || isBelow(root, each)),
  )
}

const isNoFolder = ({ base, result }: Entry) => (result ?? base)?.kind !== 'directory'
