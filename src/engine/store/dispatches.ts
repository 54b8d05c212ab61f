import { and, asc, desc, eq, gte, inArray, lt, or, sql } from 'drizzle-orm'
import type { BoundaryLevel } from '../../shared/boundary.ts'
import {
  dispatchStatuses,
  type DispatchDetail,
  type DispatchRow,
  type DispatchStatus,
} from '../../shared/dispatch.ts'
import type { SandboxEffective } from '../../shared/effective.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { DispatchId, RepoId } from '../../shared/ids.ts'
import type { SandboxLevel } from '../../shared/level.ts'
import type { StoreDatabase } from './database.ts'
import { changesets, dispatches } from './schema.ts'

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

/** A dispatch as the engine needs it: what people see, and what recovery and proof go by. */
export type StoredDispatch = DispatchDetail & {
  readonly repoId: RepoId | null
  readonly supervisorPid: number | null
  readonly supervisorStartTicks: number | null
  readonly lastEventHash: string | null
  readonly sandboxSpecText: string | null
}

const parameter = sql.placeholder

const rowColumns = {
  id: dispatches.id,
  parentId: dispatches.parentId,
  name: dispatches.name,
  agent: dispatches.agent,
  role: dispatches.role,
  phase: dispatches.phase,
  prompt: dispatches.prompt,
  status: dispatches.status,
  sandbox: dispatches.sandbox,
  exitCode: dispatches.exitCode,
  error: dispatches.error,
  createdAt: dispatches.createdAt,
  startedAt: dispatches.startedAt,
  endedAt: dispatches.endedAt,
  level: dispatches.level,
  boundary: dispatches.boundary,
  roots: dispatches.roots,
  command: dispatches.command,
  changesetState: changesets.state,
  files: changesets.files,
  insertions: changesets.insertions,
  deletions: changesets.deletions,
}
const detailColumns = {
  ...rowColumns,
  repoId: dispatches.repoId,
  supervisorPid: dispatches.supervisorPid,
  supervisorStartTicks: dispatches.supervisorStartTicks,
  lastEventHash: dispatches.lastEventHash,
  sandboxSpec: dispatches.sandboxSpec,
  sandboxEffective: dispatches.sandboxEffective,
}

function prepareStatements({ orm }: StoreDatabase) {
  const rows = () =>
    orm.select(rowColumns).from(dispatches).leftJoin(changesets, eq(changesets.id, dispatches.id)).$dynamic()
  const details = () =>
    orm
      .select(detailColumns)
      .from(dispatches)
      .leftJoin(changesets, eq(changesets.id, dispatches.id))
      .$dynamic()
  const unfinished = inArray(dispatches.status, ['starting', 'running'])
  const before = orm
    .select({ createdAt: dispatches.createdAt })
    .from(dispatches)
    .where(eq(dispatches.id, parameter('before')))
  return {
    insert: orm
      .insert(dispatches)
      .values({
        id: parameter('id'),
        repoId: parameter('repoId'),
        parentId: parameter('parentId'),
        name: parameter('name'),
        agent: parameter('agent'),
        role: parameter('role'),
        phase: parameter('phase'),
        prompt: parameter('prompt'),
        sandbox: parameter('sandbox'),
        sandboxSpec: parameter('sandboxSpec'),
        level: parameter('level'),
        boundary: parameter('boundary'),
        roots: parameter('roots'),
        command: parameter('command'),
        status: parameter('status'),
        error: parameter('error'),
        createdAt: parameter('createdAt'),
        endedAt: parameter('endedAt'),
      })
      .prepare(),
    run: orm
      .update(dispatches)
      .set({
        status: 'running',
        startedAt: sql`${parameter('startedAt')}`,
        supervisorPid: sql`${parameter('supervisorPid')}`,
        supervisorStartTicks: sql`${parameter('supervisorStartTicks')}`,
      })
      .where(and(eq(dispatches.id, parameter('id')), eq(dispatches.status, 'starting')))
      .prepare(),
    setBoundary: orm
      .update(dispatches)
      .set({ boundary: sql`${parameter('boundary')}` })
      .where(and(eq(dispatches.id, parameter('id')), unfinished))
      .prepare(),
    finish: orm
      .update(dispatches)
      .set({
        status: sql`${parameter('status')}`,
        exitCode: sql`${parameter('exitCode')}`,
        error: sql`${parameter('error')}`,
        sandboxEffective: sql`${parameter('effective')}`,
        endedAt: sql`${parameter('endedAt')}`,
        lastEventHash: sql`${parameter('lastEventHash')}`,
      })
      .where(and(eq(dispatches.id, parameter('id')), unfinished))
      .prepare(),
    status: orm
      .select({ status: dispatches.status })
      .from(dispatches)
      .where(eq(dispatches.id, parameter('id')))
      .prepare(),
    get: details()
      .where(eq(dispatches.id, parameter('id')))
      .prepare(),
    newest: rows()
      .orderBy(desc(dispatches.createdAt), desc(dispatches.id))
      .limit(parameter('limit'))
      .prepare(),
    older: rows()
      .where(
        or(
          lt(dispatches.createdAt, before),
          and(eq(dispatches.createdAt, before), lt(dispatches.id, parameter('before'))),
        ),
      )
      .orderBy(desc(dispatches.createdAt), desc(dispatches.id))
      .limit(parameter('limit'))
      .prepare(),
    byPrefix: orm
      .select({ id: dispatches.id })
      .from(dispatches)
      .where(and(gte(dispatches.id, parameter('from')), lt(dispatches.id, parameter('to'))))
      .orderBy(asc(dispatches.id))
      .limit(6)
      .prepare(),
    children: orm
      .select({ id: dispatches.id })
      .from(dispatches)
      .where(eq(dispatches.parentId, parameter('id')))
      .orderBy(asc(dispatches.createdAt), asc(dispatches.id))
      .prepare(),
    unfinished: details().where(unfinished).orderBy(asc(dispatches.createdAt), asc(dispatches.id)).prepare(),
  }
}

type RowResult = ReturnType<ReturnType<typeof prepareStatements>['newest']['all']>[number]
type DetailResult = ReturnType<ReturnType<typeof prepareStatements>['unfinished']['all']>[number]

/** Dispatches as rows of the audit record. What was asked is written once, what happened is written once. */
export class DispatchRecords {
  readonly #statements: ReturnType<typeof prepareStatements>
  readonly #wrote: (id: string) => void

  constructor(database: StoreDatabase, wrote: (id: string) => void) {
    this.#statements = prepareStatements(database)
    this.#wrote = wrote
  }

  /** Throws `dispatch.exists` when the id is taken: two dispatches of one second may draw the same four digits. */
  create(dispatch: NewDispatch): void {
    try {
      this.#statements.insert.run({
        ...dispatch,
        roots: JSON.stringify(dispatch.roots),
        command: JSON.stringify(dispatch.command),
        endedAt: dispatch.status === 'preflight_failed' ? dispatch.createdAt : null,
      })
    } catch (error) {
      if (!this.#exists(dispatch.id)) throw error
      throw new OrangeryError('dispatch.exists', `${dispatch.id}: a dispatch of this id exists`, {
        kind: 'busy',
        hint: 'Try again with a new id.',
        cause: error,
      })
    }
    this.#wrote(dispatch.id)
  }

  /** From `starting` to `running`; refused for a dispatch that is anything else by now. */
  markRunning(
    id: DispatchId,
    supervisor: {
      readonly startedAt: string
      readonly supervisorPid: number
      readonly supervisorStartTicks: number
    },
  ): void {
    if (this.#statements.run.run({ id, ...supervisor }).changes === 0) {
      throw new OrangeryError('dispatch.not_starting', `${id}: is ${this.#statusOf(id)}, not starting`, {
        kind: 'busy',
      })
    }
    this.#wrote(id)
  }

  /** What a running dispatch may do now; has no effect on one that has ended. */
  setBoundary(id: DispatchId, boundary: BoundaryLevel): void {
    if (this.#statements.setBoundary.run({ id, boundary }).changes > 0) this.#wrote(id)
    else this.#statusOf(id)
  }

  /** Outcome and terminal status in one statement. False when someone else had ended it already. */
  finish(id: DispatchId, outcome: Outcome): boolean {
    if (outcome.status === 'preflight_failed' && outcome.effective !== null) {
      throw new OrangeryError(
        'dispatch.effective_without_run',
        `${id}: nothing ran, so nothing was effective`,
      )
    }
    const { changes } = this.#statements.finish.run({
      ...outcome,
      id,
      effective: outcome.effective === null ? null : JSON.stringify(outcome.effective),
    })
    if (changes === 0) {
      this.#statusOf(id)
      return false
    }
    this.#wrote(id)
    return true
  }

  get(id: DispatchId): StoredDispatch {
    const found = this.#statements.get.get({ id })
    if (found === undefined) throw notFound(id)
    return toStored(found)
  }

  /** The one id a reference means: a full id, or a prefix of exactly one. Never a name. */
  resolve(reference: string): DispatchId {
    if (reference === '') throw notFound(reference)
    if (this.#exists(reference)) return reference as DispatchId
    const matches = this.#statements.byPrefix.all({ from: reference, to: `${reference}\u{10ffff}` })
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

  /** Newest first; `before` is the id the previous page ended with. */
  list({ limit, before }: { readonly limit: number; readonly before?: string | undefined }): DispatchRow[] {
    const found =
      before === undefined
        ? this.#statements.newest.all({ limit })
        : this.#statements.older.all({ limit, before })
    return found.map(toRow)
  }

  children(id: DispatchId): DispatchId[] {
    return this.#statements.children.all({ id }).map((child) => child.id)
  }

  /** What has not ended: after a crash, whoever starts next looks whether their supervisors still live. */
  unfinished(): StoredDispatch[] {
    return this.#statements.unfinished.all().map(toStored)
  }

  #exists(id: string): boolean {
    return this.#statements.status.get({ id }) !== undefined
  }

  #statusOf(id: DispatchId): DispatchStatus {
    const found = this.#statements.status.get({ id })
    if (found === undefined) throw notFound(id)
    return found.status
  }
}

function notFound(reference: string): OrangeryError {
  return new OrangeryError('dispatch.not_found', `${reference}: no such dispatch`, {
    kind: 'not_found',
    hint: 'Give an id or the beginning of one; `orangery dispatch list` shows them.',
  })
}

const parseList = (text: string | null): string[] => (text === null ? [] : (JSON.parse(text) as string[]))
const parseJson = (text: string | null): unknown => (text === null ? null : JSON.parse(text))

function toRow(found: RowResult): DispatchRow {
  return {
    id: found.id,
    parent_id: found.parentId,
    name: found.name,
    agent: found.agent ?? '',
    role: found.role,
    phase: found.phase,
    prompt: found.prompt,
    // A word of a foreign or older program: nothing of ours runs for it, and how it ended is unknown.
    status: dispatchStatuses.includes(found.status) ? found.status : 'interrupted',
    sandbox: found.sandbox,
    exit_code: found.exitCode,
    error: found.error,
    created_at: found.createdAt,
    started_at: found.startedAt,
    ended_at: found.endedAt,
    level: found.level,
    boundary: found.boundary,
    roots: parseList(found.roots),
    command: parseList(found.command),
    changeset:
      found.changesetState === null
        ? null
        : {
            id: found.id,
            state: found.changesetState,
            files: found.files ?? 0,
            insertions: found.insertions ?? 0,
            deletions: found.deletions ?? 0,
          },
  }
}

function toStored(found: DetailResult): StoredDispatch {
  return {
    ...toRow(found),
    sandbox_spec: parseJson(found.sandboxSpec),
    sandbox_effective: parseJson(found.sandboxEffective),
    repoId: found.repoId,
    supervisorPid: found.supervisorPid,
    supervisorStartTicks: found.supervisorStartTicks,
    lastEventHash: found.lastEventHash,
    sandboxSpecText: found.sandboxSpec,
  }
}
