import type { Database } from 'better-sqlite3'
import { phaseSchema, type BoundaryLevel } from '../../shared/boundary.ts'
import { isTerminal, type DispatchStatus } from '../../shared/dispatch.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { BoundaryGrant, BoundaryRequest, TaskApproval } from '../../shared/escalation.ts'
import type { DispatchId } from '../../shared/ids.ts'
import type { Ancestor, EscalationRecords, EscalationState } from '../base/escalation.ts'
import type { StoreDatabase } from './database.ts'

/**
 * Older ones say nothing about what to do next; the whole list is in the table. Of each status by itself, so that a
 * flood of answered ones carries off no denial, nor what is counted against the flood (at most 200 a minute).
 */
const lookedAtOfEach = 250

type RequestRow = {
  id: string
  dispatch_id: DispatchId
  to_level: BoundaryLevel
  hosts: string
  source: BoundaryRequest['source']
  by: string
  why: string
  status: BoundaryRequest['status']
  count: number
  created_at: string
  last_at: string
  expires_at: string
  answer: string | null
}
type GrantHosts = 'hosts' | 'taken' | 'returned'
type GrantRow = Omit<BoundaryGrant, GrantHosts | 'from' | 'to'> & {
  from_level: BoundaryLevel | null
  to_level: BoundaryLevel
} & Readonly<Record<GrantHosts, string>>
type TaskRow = Omit<TaskApproval, 'hosts'> & { hosts: string }
type DispatchRow = {
  id: DispatchId
  agent: string | null
  phase: string | null
  roots: string | null
  status: DispatchStatus
  boundary: BoundaryLevel | null
  parent_id: string | null
}

function toRequest({ dispatch_id, to_level, hosts, answer, ...rest }: RequestRow): BoundaryRequest {
  return {
    ...rest,
    dispatch: dispatch_id,
    to: to_level,
    hosts: JSON.parse(hosts) as string[],
    answer: answer === null ? null : (JSON.parse(answer) as BoundaryRequest['answer']),
  }
}
const toGrant = ({ from_level, to_level, ...rest }: GrantRow): BoundaryGrant => ({
  ...rest,
  from: from_level,
  to: to_level,
  hosts: JSON.parse(rest.hosts) as string[],
  taken: JSON.parse(rest.taken) as string[],
  returned: JSON.parse(rest.returned) as string[],
})
const toTask = (row: TaskRow): TaskApproval => ({ ...row, hosts: JSON.parse(row.hosts) as string[] })

function prepareStatements(sqlite: Database) {
  return {
    dispatch: sqlite.prepare(
      'SELECT id, agent, phase, roots, status, boundary, parent_id FROM dispatches WHERE id = ?',
    ),
    requests: sqlite.prepare(
      // A yes that opened more than the hosts it names is what a grant is read by, however old.
      `SELECT * FROM (SELECT rowid AS position, *,
         row_number() OVER (PARTITION BY status ORDER BY created_at DESC, rowid DESC) AS age
         FROM boundary_requests WHERE dispatch_id = ?)
       WHERE age <= ${lookedAtOfEach} OR status = 'open'
         OR (status = 'approved' AND (hosts = '[]' OR to_level = 'full'))
       ORDER BY created_at, position`,
    ),
    grants: sqlite.prepare(
      'SELECT at, from_level, to_level, hosts, taken, returned, by, why, way, request FROM boundary_grants WHERE dispatch_id = ? ORDER BY seq',
    ),
    taskApprovals: sqlite.prepare('SELECT * FROM task_approvals WHERE task = ? ORDER BY at, id'),
    // Nobody comes to a task any more in which nobody is at work and nothing can be sent back to its agent.
    lastingTaskApprovals: sqlite.prepare(
      `WITH RECURSIVE family(task, id) AS (
         SELECT DISTINCT task, task FROM task_approvals
         UNION SELECT family.task, turn.dispatch_id FROM changeset_turns turn JOIN family ON turn.changeset_id = family.id
         UNION SELECT family.task, dispatches.id FROM dispatches JOIN family ON dispatches.parent_id = family.id)
       SELECT * FROM task_approvals WHERE task IN (
         SELECT family.task FROM family JOIN dispatches USING (id) WHERE status IN ('starting', 'running')
         UNION SELECT family.task FROM family JOIN changesets USING (id) WHERE state IN ('active', 'review', 'rejected'))
       ORDER BY at, id`,
    ),
    firstTurn: sqlite.prepare('SELECT changeset_id FROM changeset_turns WHERE dispatch_id = ?').pluck(),
    insertRequest: sqlite.prepare(
      `INSERT INTO boundary_requests
       (id, dispatch_id, to_level, hosts, source, by, why, status, count, created_at, last_at, expires_at, answer)
       VALUES (@id, @dispatch, @to, @hosts, @source, @by, @why, @status, @count, @created_at, @last_at, @expires_at, @answer)`,
    ),
    updateRequest: sqlite.prepare(
      `UPDATE boundary_requests SET why = @why, hosts = @hosts, status = @status, count = @count, last_at = @last_at, answer = @answer
       WHERE id = @id AND dispatch_id = @dispatch`,
    ),
    insertGrant: sqlite.prepare(
      `INSERT INTO boundary_grants (dispatch_id, at, from_level, to_level, hosts, taken, returned, by, why, way, request)
       VALUES (@dispatch, @at, @from, @to, @hosts, @taken, @returned, @by, @why, @way, @request)`,
    ),
    insertTask: sqlite.prepare(
      `INSERT INTO task_approvals (id, task, agent, level, hosts, by, at, revoked_at)
       VALUES (@id, @task, @agent, @level, @hosts, @by, @at, @revoked_at)`,
    ),
    revokeTask: sqlite.prepare(
      'UPDATE task_approvals SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL',
    ),
    open: sqlite.prepare(
      `SELECT request.* FROM boundary_requests request JOIN dispatches ON dispatches.id = request.dispatch_id
       WHERE request.status = 'open' AND dispatches.status IN ('starting', 'running')
       ORDER BY request.created_at, request.rowid`,
    ),
    descendants: sqlite.prepare(
      `WITH RECURSIVE family(id) AS (
         SELECT id FROM dispatches WHERE parent_id = @id
         UNION SELECT dispatches.id FROM dispatches JOIN family ON dispatches.parent_id = family.id)
       SELECT dispatches.id AS id FROM family JOIN dispatches USING (id)
       WHERE dispatches.status IN ('starting', 'running') AND dispatches.id != @id
       ORDER BY dispatches.created_at, dispatches.id`,
    ),
    unfinished: sqlite.prepare(
      `SELECT id FROM dispatches WHERE status IN ('starting', 'running') ORDER BY created_at, id`,
    ),
  }
}

/** Requests, grants and task approvals in the database; what the policy decides is written here as one. */
export class BoundaryRecords implements EscalationRecords {
  readonly #sqlite: Database
  readonly #attempt: StoreDatabase['attempt']
  readonly #statements: ReturnType<typeof prepareStatements>
  readonly #wrote: (id: string) => void

  constructor({ sqlite, attempt }: StoreDatabase, wrote: (id: string) => void) {
    this.#sqlite = sqlite
    this.#attempt = attempt
    this.#statements = prepareStatements(sqlite)
    this.#wrote = wrote
  }

  read(id: DispatchId): EscalationState {
    return this.#attempt(() => this.#read(id))
  }

  #read(id: DispatchId): EscalationState {
    const row = this.#row(id)
    if (row === undefined) {
      throw new OrangeryError('dispatch.not_found', `dispatch ${id}: there is none`, { kind: 'not_found' })
    }
    const ancestors = this.#ancestorsOf(row)
    const first = ancestors.at(-1)?.id ?? row.id
    const task = (this.#statements.firstTurn.get(first) as string | undefined) ?? first
    const phase = phaseSchema.safeParse(row.phase)
    return {
      ...this.#held(row, 'readonly'),
      task,
      agent: row.agent ?? '',
      phase: phase.success ? phase.data : null,
      running: !isTerminal(row.status),
      taskApprovals: (this.#statements.taskApprovals.all(task) as TaskRow[]).map(toTask),
      // A row from before boundaries says nothing about what its children may have.
      ancestors: ancestors.map((ancestor) => this.#held(ancestor, 'full')),
    }
  }

  #held({ id, roots, boundary }: DispatchRow, unsaid: BoundaryLevel): Ancestor {
    const grants = (this.#statements.grants.all(id) as GrantRow[]).map(toGrant)
    const requests = this.#statements.requests.all(id) as (RequestRow & { position: number; age: number })[]
    return {
      dispatch: id,
      roots: roots === null ? [] : (JSON.parse(roots) as string[]),
      // The row's boundary follows the grants; the first of them remembers where it began.
      start: grants[0]?.from ?? boundary ?? unsaid,
      grants,
      requests: requests.map(({ position: _position, age: _age, ...request }) => toRequest(request)),
    }
  }

  change<T>(id: DispatchId, change: (state: EscalationState) => { state: EscalationState; result: T }): T {
    const transaction = this.#sqlite.transaction(() => {
      const before = this.#read(id)
      const { state, result } = change(before)
      this.#write(before, state)
      return { result, wrote: state !== before }
    })
    // Immediate: two processes that answer the same request meet at the lock, not at the write.
    const { result, wrote } = this.#attempt(() => transaction.immediate())
    if (wrote) this.#wrote(id)
    return result
  }

  #write(before: EscalationState, after: EscalationState): void {
    const known = new Map(before.requests.map((request) => [request.id, request]))
    for (const request of after.requests) {
      const old = known.get(request.id)
      if (old === request) continue
      const row = {
        ...request,
        hosts: JSON.stringify(request.hosts),
        answer: request.answer === null ? null : JSON.stringify(request.answer),
      }
      if (old === undefined) this.#statements.insertRequest.run(row)
      else this.#statements.updateRequest.run(row)
    }
    for (const grant of after.grants.slice(before.grants.length)) {
      this.#statements.insertGrant.run({
        ...grant,
        dispatch: after.dispatch,
        hosts: JSON.stringify(grant.hosts),
        taken: JSON.stringify(grant.taken),
        returned: JSON.stringify(grant.returned),
      })
    }
    for (const [index, { id, revoked_at: revoked }] of before.taskApprovals.entries()) {
      const now = after.taskApprovals[index]
      if (revoked === null && now?.id === id && now.revoked_at !== null)
        this.#statements.revokeTask.run(now.revoked_at, id)
    }
    for (const approval of after.taskApprovals.slice(before.taskApprovals.length)) {
      this.#statements.insertTask.run({ ...approval, hosts: JSON.stringify(approval.hosts) })
    }
  }

  openRequests(): readonly BoundaryRequest[] {
    return this.#attempt(() => this.#statements.open.all() as RequestRow[]).map(toRequest)
  }

  taskApprovals(): readonly TaskApproval[] {
    return this.#attempt(() => this.#statements.lastingTaskApprovals.all() as TaskRow[]).map(toTask)
  }

  revokeTaskApproval(id: string, at: string): boolean {
    return this.#attempt(() => this.#statements.revokeTask.run(at, id)).changes > 0
  }

  descendants(id: DispatchId): readonly DispatchId[] {
    const rows = this.#attempt(() => this.#statements.descendants.all({ id }) as { id: DispatchId }[])
    return rows.map((row) => row.id)
  }

  unfinished(): readonly DispatchId[] {
    const rows = this.#attempt(() => this.#statements.unfinished.all() as { id: DispatchId }[])
    return rows.map(({ id }) => id)
  }

  #row(id: string): DispatchRow | undefined {
    return this.#statements.dispatch.get(id) as DispatchRow | undefined
  }

  /** From the parent to the oldest that is on record. Records from elsewhere may lead in a circle. */
  #ancestorsOf(row: DispatchRow): readonly DispatchRow[] {
    const seen = new Set<string>([row.id])
    const ancestors: DispatchRow[] = []
    let last = row
    while (last.parent_id !== null && !seen.has(last.parent_id)) {
      const parent = this.#row(last.parent_id)
      if (parent === undefined) break
      seen.add(parent.id)
      ancestors.push(parent)
      last = parent
    }
    return ancestors
  }
}
