import type { BoundaryLevel } from '../../shared/boundary.ts'
import { isTerminal, type DispatchRow, type DispatchStatus } from '../../shared/dispatch.ts'
import type { SandboxEffective } from '../../shared/effective.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { DispatchId, RepoId } from '../../shared/ids.ts'
import type { SandboxLevel } from '../../shared/level.ts'
import { syncFile } from '../base/files.ts'
import type { StoreDatabase } from './database.ts'
import { dispatchQueries } from './dispatchQueries.ts'
import { toRow, toStored, type StoredDispatch } from './rows.ts'

export type NewDispatch = {
  readonly id: DispatchId
  readonly repoId: RepoId | null
  readonly parentId: string | null
  readonly name: string | null
  readonly agent: string
  readonly role: string | null
  readonly phase: string | null
  readonly prompt: string | null
  /** Legacy word; `access_mode` of the spec supersedes it. */
  readonly sandbox: string | null
  /** The caller's own text, byte for byte. */
  readonly sandboxSpec: string | null
  readonly level: SandboxLevel
  readonly boundary: BoundaryLevel
  readonly roots: readonly string[]
  readonly command: readonly string[]
  readonly status: 'starting' | 'preflight_failed'
  readonly error: string | null
  readonly createdAt: string
  /** Who answers for it until a supervisor does: where that process is dead, nobody will start it any more. */
  readonly supervisorPid?: number
  readonly supervisorStartTicks?: number
}

export type TerminalStatus = Exclude<DispatchStatus, 'starting' | 'running'>

export type Outcome = {
  readonly status: TerminalStatus
  readonly exitCode: number | null
  readonly error: string | null
  readonly effective: SandboxEffective | null
  readonly endedAt: string
  readonly lastEventHash: string | null
}

export type ListOptions = {
  readonly limit: number
  readonly before?: string | undefined
  readonly waiting?: boolean
}

/** Dispatches as rows of the audit record. What was asked is written once, what happened is written once. */
export class DispatchRecords {
  readonly #queries: ReturnType<typeof dispatchQueries>
  readonly #sqlite: StoreDatabase['sqlite']
  readonly #attempt: StoreDatabase['attempt']
  readonly #wrote: (id: string) => void

  constructor(database: StoreDatabase, wrote: (id: string) => void) {
    this.#queries = dispatchQueries(database)
    this.#sqlite = database.sqlite
    this.#attempt = database.attempt
    this.#wrote = wrote
  }

  /**
   * Throws `dispatch.exists` when the id is taken: two dispatches of one second may draw the same four digits.
   * `parent: 'running'` refuses one whose parent has ended, in the transaction that writes the row: nobody who
   * ended the parent and looks for its children afterwards misses one. `synced: false`: whoever runs it waits for
   * `sync` before its first instruction.
   */
  create(
    dispatch: NewDispatch,
    {
      parent = 'any',
      synced = true,
    }: { readonly parent?: 'any' | 'running'; readonly synced?: boolean } = {},
  ): void {
    const row = {
      ...dispatch,
      supervisorPid: dispatch.supervisorPid ?? null,
      supervisorStartTicks: dispatch.supervisorStartTicks ?? null,
      roots: JSON.stringify(dispatch.roots),
      command: JSON.stringify(dispatch.command),
      endedAt: dispatch.status === 'preflight_failed' ? dispatch.createdAt : null,
    }
    const { parentId } = dispatch
    const insert = () => this.#queries.insert.run(row)
    const insertUnder = (id: string) => {
      const status = this.#queries.status.get({ id })?.status
      if (status === undefined) throw notFound(id)
      if (isTerminal(status)) throw parentEnded(id, status)
      return insert()
    }
    try {
      const write = () =>
        parent === 'any' || parentId === null
          ? insert()
          : this.#sqlite.transaction(() => insertUnder(parentId)).immediate()
      this.#attempt(synced ? write : () => this.#unsynced(write))
    } catch (error) {
      if (error instanceof OrangeryError) throw error
      if (this.#status(dispatch.id) === undefined) throw error
      throw new OrangeryError('dispatch.exists', `${dispatch.id}: a dispatch of this id exists`, {
        kind: 'busy',
        hint: 'Try again with a new id.',
        cause: error,
      })
    }
    this.#wrote(dispatch.id)
  }

  /**
   * Another process answers for a dispatch that is starting; refused for one that is anything else by now. Not
   * waited for to be on the disk: after a power cut none of them lives.
   */
  takeOver(
    id: DispatchId,
    supervisor: { readonly supervisorPid: number; readonly supervisorStartTicks: number },
  ): void {
    if (this.#changed(id, () => this.#unsynced(() => this.#queries.takeOver.run({ id, ...supervisor }))))
      return
    throw this.#notStarting(id)
  }

  /**
   * Resolves when all that was written before, by whatever process, outlives a power cut. Without stopping this
   * process, as a commit that waits for the disk does.
   */
  async sync(): Promise<void> {
    await syncFile(`${this.#sqlite.name}-wal`).catch((error: NodeJS.ErrnoException) => {
      // A log that is gone was carried over into the database, and that on the disk.
      if (error.code !== 'ENOENT') throw error
    })
  }

  /** Does to no row what is done to one that starts: the first time takes several times as long. */
  rehearse(): void {
    const nobody = { id: '', startedAt: '', supervisorPid: 0, supervisorStartTicks: 0 }
    this.#attempt(() => {
      this.#queries.takeOver.run(nobody)
      this.#queries.run.run(nobody)
    })
  }

  /**
   * From `starting` to `running`; refused for a dispatch that is anything else by now. Not waited for to be on the
   * disk: after a power cut one that starts and one that runs are both interrupted.
   */
  markRunning(
    id: DispatchId,
    supervisor: {
      readonly startedAt: string
      readonly supervisorPid: number
      readonly supervisorStartTicks: number
    },
  ): void {
    if (this.#changed(id, () => this.#unsynced(() => this.#queries.run.run({ id, ...supervisor })))) return
    throw this.#notStarting(id)
  }

  /** What a running dispatch may do now; has no effect on one that has ended. */
  setBoundary(id: DispatchId, boundary: BoundaryLevel): void {
    this.#changed(id, () => this.#queries.setBoundary.run({ id, boundary }))
  }

  /**
   * The newest event that is surely in the log of one that runs: whoever cuts it off before the end is found out.
   * Nobody else has anything to see in it, so nobody is told.
   */
  anchor(id: DispatchId, lastEventHash: string): void {
    this.#attempt(() => this.#unsynced(() => this.#queries.anchor.run({ id, lastEventHash })))
  }

  /** Outcome and terminal status in one statement. False when someone else had ended it already. */
  finish(id: DispatchId, outcome: Outcome): boolean {
    if (outcome.status === 'preflight_failed' && outcome.effective !== null) {
      throw new OrangeryError(
        'dispatch.effective_without_run',
        `${id}: nothing ran, so nothing was effective`,
      )
    }
    const sandboxEffective = outcome.effective === null ? null : JSON.stringify(outcome.effective)
    return this.#changed(id, () => this.#queries.finish.run({ ...outcome, id, sandboxEffective }))
  }

  get(id: DispatchId): StoredDispatch {
    const found = this.find(id)
    if (found === undefined) throw notFound(id)
    return found
  }

  /** Undefined where there is no row: a sandbox that nothing was ever run in has none. */
  find(id: DispatchId): StoredDispatch | undefined {
    const found = this.#attempt(() => this.#queries.get.get({ id }))
    return found === undefined ? undefined : toStored(found)
  }

  /** The one id a reference means: a full id, or a prefix of exactly one. Never a name. */
  resolve(reference: string): DispatchId {
    if (reference === '') throw notFound(reference)
    if (this.#status(reference) !== undefined) return reference as DispatchId
    const range = { from: reference, to: `${reference}\u{10ffff}` }
    const matches = this.#attempt(() => this.#queries.byPrefix.all(range))
    const [only, ...others] = matches
    if (only === undefined) throw notFound(reference)
    if (others.length === 0) return only.id
    const shown = matches.slice(0, 5).map((match) => match.id)
    throw new OrangeryError(
      'dispatch.ambiguous',
      `${reference}: several dispatches begin with it (${shown.join(', ')}${matches.length > 5 ? ', …' : ''})`,
      { kind: 'not_found', hint: 'Give more of the id.', details: shown },
    )
  }

  /**
   * Newest first; `before` is the id the previous page ended with. `waiting`: the newest, and whatever else has not
   * ended or waits for a review, however old it is.
   */
  list({ limit, before, waiting = false }: ListOptions): DispatchRow[] {
    const { newest, older, waiting: all } = this.#queries
    const found = this.#attempt(() => {
      if (before !== undefined) return older.all({ limit, before })
      if (!waiting) return newest.all({ limit })
      return this.#sqlite.transaction(() => {
        const page = newest.all({ limit })
        const listed = new Set(page.map(({ id }) => id))
        return [...page, ...all.all({}).filter(({ id }) => !listed.has(id))]
      })()
    })
    return found.map(toRow)
  }

  children(id: DispatchId): DispatchId[] {
    return this.#attempt(() => this.#queries.children.all({ id })).map((child) => child.id)
  }

  /** What has not ended: after a crash, whoever starts next looks whether their supervisors still live. */
  unfinished(): StoredDispatch[] {
    return this.#attempt(() => this.#queries.unfinished.all({})).map(toStored)
  }

  /** Runs a write of one row and tells listeners. False when the row is not in a state for it. */
  #changed(id: DispatchId, write: () => { readonly changes: number }): boolean {
    if (this.#attempt(write).changes === 0) {
      if (this.#status(id) === undefined) throw notFound(id)
      return false
    }
    this.#wrote(id)
    return true
  }

  /** A commit that leaves it to a later one, or to `sync`, to be on the disk. */
  #unsynced<T>(write: () => T): T {
    // Within a transaction it is that one's commit which counts.
    if (this.#sqlite.inTransaction) return write()
    this.#sqlite.pragma('synchronous = NORMAL')
    try {
      return write()
    } finally {
      this.#sqlite.pragma('synchronous = FULL')
    }
  }

  #notStarting(id: DispatchId): OrangeryError {
    return new OrangeryError('dispatch.not_starting', `${id}: is ${this.#status(id)}, not starting`, {
      kind: 'busy',
    })
  }

  #status(id: string): DispatchStatus | undefined {
    return this.#attempt(() => this.#queries.status.get({ id }))?.status
  }
}

export function parentEnded(id: string, status: DispatchStatus): OrangeryError {
  return new OrangeryError(
    'dispatch.parent_ended',
    `parent ${id}: is ${status} and can have no more children`,
    {
      kind: 'refused',
      hint: 'Only a dispatch that still runs has rights to hand on; leave the parent out.',
    },
  )
}

function notFound(reference: string): OrangeryError {
  return new OrangeryError('dispatch.not_found', `${reference}: no such dispatch`, {
    kind: 'not_found',
    hint: 'Give an id or the beginning of one; `orangery dispatch list` shows them.',
  })
}
