import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { OrangeryError } from '../../shared/errors.ts'
import { ensureFolder, replaceFile, unlessMissing, type Disk } from './disk.ts'
import { manifestSchema, type Manifest } from './manifest.ts'

/** Manifests on disk, each named by the hash of its text: a revision cannot say something else tomorrow. */
export class SavedManifests {
  readonly #folder: string

  readonly #disk: Disk

  constructor(changesetFolder: string, disk: Disk) {
    this.#disk = disk
    this.#folder = join(changesetFolder, 'revisions')
  }

  async write(manifest: Manifest, durable = true): Promise<string> {
    const { revision, text } = written(manifest)
    await ensureFolder(this.#disk, this.#folder)
    await replaceFile(this.#disk, this.#path(revision), text, durable)
    return revision
  }

  async read(revision: string): Promise<Manifest> {
    const text = await readFile(this.#path(revision), 'utf8')
    if (hashOf(text) !== revision) {
      throw new OrangeryError(
        'changeset.damaged',
        `revision ${revision.slice(0, 12)}: its record was changed on disk`,
        {
          kind: 'refused',
          hint: 'Nothing of it can be landed. Capture it again from its workspace.',
        },
      )
    }
    return manifestSchema.parse(JSON.parse(text))
  }

  /** Forgets live captures that nobody looked at and nothing refers to. */
  async keepOnly(revisions: ReadonlySet<string>): Promise<void> {
    for (const name of await readdir(this.#folder).catch(() => [])) {
      const revision = name.replace(/\.json$/, '')
      if (/^[0-9a-f]{64}$/.test(revision) && !revisions.has(revision))
        await unlessMissing(this.#disk.unlink(this.#path(revision)))
    }
  }

  #path(revision: string): string {
    return join(this.#folder, `${revision}.json`)
  }
}

/** The name of a manifest: the hash of its text. */
export function revisionOf(manifest: Manifest): string {
  return written(manifest).revision
}

function written(manifest: Manifest): { revision: string; text: string } {
  const text = JSON.stringify(manifest)
  return { revision: hashOf(text), text }
}
function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
