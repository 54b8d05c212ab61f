import type { Overlap } from '../../../shared/changeset.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import { fromText, isBelow, joinPath, parentOf, toText, type BytePath } from '../bytePath.ts'
import type { Entry, Manifest, Side } from '../manifest.ts'

/** Where a changeset changes something that is no folder, on either side. */
type Touched = {
  readonly paths: ReadonlySet<BytePath>
  /** Where it puts something that is no folder and has not been there. */
  readonly put: readonly BytePath[]
  /** Every folder that one of the paths lies in. */
  readonly folders: ReadonlySet<BytePath>
}
const mostNamed = 100

/** Finds files that several open changesets touch, by where they lie, whatever roots and projects these were told with. */
export class Overlaps {
  readonly #read: (record: ChangesetRecord) => Promise<Manifest>
  /** A window asks each second: what a changeset touches is read once per revision. */
  readonly #known = new Map<DispatchId, { readonly revision: string; readonly touched: Touched }>()

  constructor(read: (record: ChangesetRecord) => Promise<Manifest>) {
    this.#read = read
  }

  async of(record: ChangesetRecord, own: Manifest, open: readonly ChangesetRecord[]): Promise<Overlap[]> {
    const ids = new Set(open.map(({ id }) => id))
    for (const id of this.#known.keys()) if (!ids.has(id)) this.#known.delete(id)
    const files = own.entries.filter(isNoFolder).map((entry) => ({ entry, place: placeOf(entry) }))
    const ours = touchedBy(own)
    const put = new Set(ours.put)
    const found: Overlap[] = []
    for (const other of open) {
      if (other.id === record.id || !haveCommonFolder(record, other)) continue
      const touched = await this.#touched(other)
      // A file of the one may stand where the other needs a folder.
      const blocked = touched.put.filter((place) => ours.folders.has(place))
      const shared = files.filter(
        ({ place }) =>
          touched.paths.has(place) ||
          (put.has(place) && touched.folders.has(place)) ||
          blocked.some((each) => isBelow(place, each)),
      )
      if (shared.length === 0) continue
      const more = shared.length - mostNamed
      found.push({
        id: other.id,
        paths: shared.slice(0, mostNamed).map(({ entry }) => toText(entry.path)),
        ...(more > 0 ? { more } : {}),
      })
    }
    return found
  }

  async #touched(record: ChangesetRecord): Promise<Touched> {
    const { id, revision } = record
    const known = this.#known.get(id)
    if (known?.revision === revision) return known.touched
    const manifest = await this.#read(record).catch(() => null)
    const touched = touchedBy(manifest)
    if (manifest !== null) this.#known.set(id, { revision, touched })
    return touched
  }
}

function touchedBy(manifest: Manifest | null): Touched {
  const entries = (manifest?.entries ?? []).filter(isNoFolder)
  const paths = new Set(entries.map(placeOf))
  const folders = new Set<BytePath>()
  for (const path of paths)
    for (let at = parentOf(path); at !== '' && !folders.has(at); at = parentOf(at)) folders.add(at)
  const put = entries.filter(({ base, result }) => isOther(result) && !isOther(base)).map(placeOf)
  return { paths, put, folders }
}

export const placeOf = ({ root, path }: Pick<Entry, 'root' | 'path'>): BytePath =>
  joinPath(fromText(root), path)

function haveCommonFolder(one: ChangesetRecord, other: ChangesetRecord): boolean {
  const [own, theirs] = [one, other].map(({ workspace }) => workspace.roots.map(({ path }) => fromText(path)))
  return (own ?? []).some((root) =>
    (theirs ?? []).some((each) => each === root || isBelow(each, root) || isBelow(root, each)),
  )
}

const isOther = (side: Side | null) => side !== null && side.kind !== 'directory'
const isNoFolder = ({ base, result }: Entry) => isOther(result) || isOther(base)
