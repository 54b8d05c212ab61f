import { readdir, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { OrangeryError } from '../../shared/errors.ts'
import type { RemovedLog } from '../../shared/disk.ts'
import type { DispatchId, RepoId } from '../../shared/ids.ts'
import type { Layout } from '../base/paths.ts'
import type { StoreDatabase } from './database.ts'

const setting = 'logs_kept_bytes'

type Candidate = { readonly id: DispatchId; readonly repoId: RepoId; readonly mayGo: boolean }
type LogFile = {
  readonly id: DispatchId
  readonly log: RemovedLog['log']
  readonly paths: string[]
  bytes: number
  mayGo: boolean
}

/**
 * Nothing is deleted by itself but logs past a size the user set. Terminal output goes before event logs, the
 * oldest first; a dispatch that runs or waits for review keeps both.
 */
export class Retention {
  readonly #database: StoreDatabase
  readonly #layout: Layout

  constructor(database: StoreDatabase, layout: Layout) {
    this.#database = database
    this.#layout = layout
  }

  /** Null: every log is kept. */
  get logsKept(): number | null {
    const row = this.#database.attempt(() =>
      this.#database.sqlite
        .prepare<[string], { value: string }>('SELECT value FROM settings WHERE name = ?')
        .get(setting),
    )
    return row === undefined ? null : Number(row.value)
  }

  keepLogs(bytes: number | null): void {
    if (bytes !== null && !(Number.isSafeInteger(bytes) && bytes >= 0)) {
      throw new OrangeryError('retention.size', `logs kept: ${bytes} is not a size`, { kind: 'input' })
    }
    const { sqlite, attempt } = this.#database
    attempt(() =>
      bytes === null
        ? sqlite.prepare('DELETE FROM settings WHERE name = ?').run(setting)
        : sqlite
            .prepare('INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)')
            .run(setting, String(bytes)),
    )
  }

  /** Logs that went, of one dispatch or of all. */
  removed(id?: DispatchId): RemovedLog[] {
    const { sqlite, attempt } = this.#database
    const columns = 'SELECT dispatch_id AS id, log, bytes, removed_at, why FROM removed_logs'
    return attempt(() =>
      id === undefined
        ? sqlite.prepare<[], RemovedLog>(`${columns} ORDER BY removed_at`).all()
        : sqlite.prepare<[string], RemovedLog>(`${columns} WHERE dispatch_id = ?`).all(id),
    )
  }

  /** Removes what is past the size the user set, and says what went. Does nothing where none is set. */
  async trim(now: Date = new Date()): Promise<RemovedLog[]> {
    const kept = this.logsKept
    if (kept === null) return []
    const logs: LogFile[] = []
    for (const candidate of this.#candidates()) logs.push(...(await this.#logsOf(candidate)))
    let total = logs.reduce((sum, log) => sum + log.bytes, 0)
    const inOrder = ['output', 'events'].flatMap((kind) =>
      logs.filter(({ log, mayGo }) => mayGo && log === kind),
    )
    const removed: RemovedLog[] = []
    for (const log of inOrder) {
      if (total <= kept) break
      removed.push(await this.#remove(log, now, `logs are kept up to ${kept} bytes`))
      total -= log.bytes
    }
    return removed
  }

  /** Dispatches with files of their own, oldest first. */
  #candidates(): Candidate[] {
    const { sqlite, attempt } = this.#database
    const rows = attempt(() =>
      sqlite
        .prepare<[], { id: DispatchId; repoId: RepoId; mayGo: number }>(
          `SELECT dispatches.id AS id, dispatches.repo_id AS repoId,
             dispatches.status NOT IN ('starting', 'running')
               AND coalesce(changesets.state, 'applied') NOT IN ('active', 'review', 'rejected') AS mayGo
           FROM dispatches LEFT JOIN changesets ON changesets.id = coalesce(
             (SELECT changeset_id FROM changeset_turns WHERE dispatch_id = dispatches.id), dispatches.id)
           WHERE dispatches.repo_id IS NOT NULL ORDER BY dispatches.created_at, dispatches.id`,
        )
        .all(),
    )
    return rows.map((row) => ({ ...row, mayGo: row.mayGo === 1 }))
  }

  async #logsOf({ id, repoId, mayGo }: Candidate): Promise<LogFile[]> {
    const names = await readdir(this.#layout.invocation(repoId, id)).catch((): string[] => [])
    const found = { events: this.#layout.events(repoId, id), output: this.#layout.output(repoId, id) }
    const logs = await Promise.all(
      (['output', 'events'] as const).map(async (log): Promise<LogFile> => {
        // With what stands beside it under its name: torn ends, an index of the output.
        const paths = names
          .filter((name) => name.startsWith(basename(found[log])))
          .map((name) => join(dirname(found[log]), name))
        const sizes = await Promise.all(
          paths.map((path) =>
            stat(path).then(
              (facts) => facts.size,
              () => 0,
            ),
          ),
        )
        return { id, log, paths, bytes: sizes.reduce((sum, size) => sum + size, 0), mayGo }
      }),
    )
    return logs.filter(({ paths }) => paths.length > 0)
  }

  async #remove({ id, log, paths, bytes }: LogFile, now: Date, why: string): Promise<RemovedLog> {
    const removed: RemovedLog = { id, log, bytes, removed_at: now.toISOString(), why }
    const { sqlite, attempt } = this.#database
    // Written down before it goes: a log that is missing without a word would look like tampering.
    attempt(() =>
      sqlite
        .prepare(
          'INSERT OR REPLACE INTO removed_logs (dispatch_id, log, bytes, removed_at, why) VALUES (?, ?, ?, ?, ?)',
        )
        .run(id, log, bytes, removed.removed_at, why),
    )
    for (const path of paths) await rm(path, { force: true })
    return removed
  }
}
