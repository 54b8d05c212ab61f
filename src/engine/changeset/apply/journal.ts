import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import {
  changesetStateSchema,
  commitRequestSchema,
  madeCommitSchema,
  type MadeCommit,
} from '../../../shared/changeset.ts'
import { dispatchIdSchema } from '../../../shared/ids.ts'
import { ensureFolder, replaceFile, syncFolder, unlessMissing, type Disk } from '../disk.ts'
import { manifestSchema } from '../manifest.ts'
import { operationSchema } from './steps.ts'

const baseSchema = z.object({ side: operationSchema.shape.before, certain: z.boolean() })

/**
 * What an apply or undo is about to do, on disk before it does it. `staging`: no original is touched yet.
 * `committing`: some may be; the next start goes on, or back if it cannot. `committed`: all are.
 */
export const journalSchema = z.object({
  version: z.literal(1),
  transaction: z.string(),
  id: dispatchIdSchema,
  kind: z.enum(['apply', 'undo']),
  state: z.enum(['staging', 'committing', 'committed']),
  by: z.string(),
  at: z.string(),
  revision: z.string(),
  /** The transactions an undo takes back; one that was cut off by an older version names a single one. */
  undoes: z.union([z.string().transform((one) => [one]), z.array(z.string())]).nullable(),
  operations: z.array(operationSchema),
  /** What the changeset is once this is done. */
  manifest: manifestSchema,
  previous: manifestSchema,
  /** All that an apply and those before it have landed and what is left, where there were any before it. */
  whole: manifestSchema.optional(),
  bases: z.array(z.tuple([z.string(), baseSchema])),
  bases_before: z.array(z.tuple([z.string(), baseSchema.nullable()])),
  /** Of what was said yes to: where the user kept his own. */
  kept: z.array(z.string()).optional(),
  outcome: changesetStateSchema,
  why: z.string(),
  /** Roots in which a mode says nothing. */
  modeless: z.array(z.string()).optional(),
  /** Where contents wait in a root whose own folder may not be written. */
  places: z.array(z.tuple([z.string(), operationSchema.shape.path])).optional(),
  /** A commit that was asked for, and what it was going to be; one that a crash prevented is made up for. */
  commit: commitRequestSchema.optional(),
  planned: z.array(madeCommitSchema).optional(),
  /** Commits that were made of it for the user; an undo leaves them alone and says so. */
  commits: z.array(madeCommitSchema).optional(),
  /** The path it stopped at, being neither old nor new: nothing goes on before a person has settled it. */
  stopped: z.object({ root: z.string(), path: z.string(), path_b64: z.string().optional() }).optional(),
})
export type Journal = z.infer<typeof journalSchema>

export class Journals {
  readonly #folder: string
  readonly #disk: Disk

  constructor(changesetFolder: string, disk: Disk) {
    this.#folder = join(changesetFolder, 'journal')
    this.#disk = disk
  }

  /** Replaces the journal as a whole: a reader finds the state before or the one after. */
  async write(journal: Journal): Promise<void> {
    await ensureFolder(this.#disk, this.#folder)
    await replaceFile(this.#disk, this.#path(journal.transaction), JSON.stringify(journal))
  }

  async read(transaction: string): Promise<Journal> {
    return journalSchema.parse(JSON.parse(await readFile(this.#path(transaction), 'utf8')))
  }

  /** Of those that were not brought to their end, also of one that nobody can read. */
  async openNames(): Promise<readonly string[]> {
    const names = await readdir(this.#folder).catch(() => [])
    return names.filter((name) => name.endsWith('.json') && !name.endsWith('.done.json')).toSorted()
  }

  async open(): Promise<readonly Journal[]> {
    const open = await this.openNames()
    return Promise.all(
      open.map(async (name) => {
        const journal = await this.read(name.slice(0, -'.json'.length))
        return name.endsWith('.back.json') ? { ...journal, state: 'staging' } : journal
      }),
    )
  }

  /**
   * Every original is old again. Said by a rename, which a full disk allows too: were what waited thrown away
   * while the journal says "committing", a crash in between would make the next start land the other half.
   */
  async takenBack(transaction: string): Promise<void> {
    await this.#disk.rename(this.#path(transaction), this.#path(`${transaction}.back`))
    await syncFolder(this.#disk, this.#folder)
  }

  readDone(transaction: string): Promise<Journal> {
    return this.read(`${transaction}.done`)
  }

  /** What followed the files once they were there. */
  async noteCommits(transaction: string, commits: MadeCommit[]): Promise<void> {
    const done = `${transaction}.done`
    const journal = { ...(await this.read(done)), commits }
    await replaceFile(this.#disk, this.#path(done), JSON.stringify(journal))
  }

  /** Nothing is left to do; undo may still read it. */
  async close(transaction: string): Promise<void> {
    await this.#disk.rename(this.#path(transaction), this.#path(`${transaction}.done`))
  }

  async remove(transaction: string): Promise<void> {
    for (const name of [transaction, `${transaction}.back`])
      await unlessMissing(this.#disk.unlink(this.#path(name)))
  }

  #path(transaction: string): string {
    return join(this.#folder, `${transaction}.json`)
  }
}
