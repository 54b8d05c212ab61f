import type { DispatchId } from '../../shared/ids.ts'
import type { StoreDatabase } from './database.ts'

export type WaitingLanding = {
  readonly id: DispatchId
  /** What was asked for, as JSON; whoever carries it out checks it again. */
  readonly request: unknown
  readonly by: string
  readonly askedAt: string
  /** Why it did not land when its turn came; it waits for a person then. */
  readonly problem: string | null
}
type Row = {
  readonly id: string
  readonly request: string
  readonly asked_by: string
  readonly asked_at: string
  readonly problem: string | null
}

/** Landings that were asked for while an agent was at work on their folders. */
export class Landings {
  readonly #database: StoreDatabase
  readonly #announce: (id: string) => void

  constructor(database: StoreDatabase, announce: (id: string) => void) {
    this.#database = database
    this.#announce = announce
  }

  /** In the order they were asked for. */
  list(): WaitingLanding[] {
    const { sqlite, attempt } = this.#database
    return attempt(() => sqlite.prepare<[], Row>('SELECT * FROM landings ORDER BY asked_at, id').all()).map(
      ({ id, request, asked_by, asked_at, problem }) => ({
        id: id as DispatchId,
        request: JSON.parse(request) as unknown,
        by: asked_by,
        askedAt: asked_at,
        problem,
      }),
    )
  }

  find(id: DispatchId): WaitingLanding | null {
    return this.list().find((landing) => landing.id === id) ?? null
  }

  /** Asked again: the newer word counts. */
  add(id: DispatchId, request: unknown, by: string, askedAt: string): void {
    this.#write(
      id,
      `INSERT INTO landings (id, request, asked_by, asked_at) VALUES (?, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET request = excluded.request, asked_by = excluded.asked_by,
         asked_at = excluded.asked_at, problem = NULL`,
      [id, JSON.stringify(request), by, askedAt],
    )
  }

  fail(id: DispatchId, problem: string): void {
    this.#write(id, 'UPDATE landings SET problem = ? WHERE id = ?', [problem, id])
  }

  /** False: there was none. */
  remove(id: DispatchId): boolean {
    return this.#write(id, 'DELETE FROM landings WHERE id = ?', [id]) > 0
  }

  #write(id: DispatchId, sql: string, values: readonly string[]): number {
    const { sqlite, attempt } = this.#database
    const { changes } = attempt(() => sqlite.prepare(sql).run(...values))
    if (changes > 0) this.#announce(id)
    return changes
  }
}
