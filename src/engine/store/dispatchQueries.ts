import { and, asc, desc, eq, gte, lt, sql, type SQL } from 'drizzle-orm'
import type { DispatchStatus } from '../../shared/dispatch.ts'
import type { DispatchId } from '../../shared/ids.ts'
import { compile } from './compile.ts'
import type { StoreDatabase } from './database.ts'
import { detailColumns, rowColumns, type Found } from './rows.ts'
import { changesets, dispatches } from './schema.ts'

type RowFound = Found<typeof rowColumns>
type DetailFound = Found<typeof detailColumns>

const parameter = sql.placeholder

const given = <Name extends string>(...names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, sql`${parameter(name)}`])) as Record<Name, SQL>

// Spelled out as in the partial index, which SQLite does not recognise behind parameters.
const isUnfinished = () => sql`${dispatches.status} IN ('starting','running')`
const isThisOne = () => eq(dispatches.id, parameter('id'))
const newestFirst = () => [desc(dispatches.createdAt), desc(dispatches.id)]
const oldestFirst = () => [asc(dispatches.createdAt), asc(dispatches.id)]

/** Every query about dispatches. None walks the table. */
export function dispatchQueries({ orm, sqlite }: StoreDatabase) {
  // A dispatch that went on with a changeset after a review shows that one.
  const theirChangeset = () =>
    eq(
      changesets.id,
      sql`COALESCE((SELECT changeset_id FROM changeset_turns WHERE dispatch_id = ${dispatches.id}), ${dispatches.id})`,
    )
  const rows = () => orm.select(rowColumns).from(dispatches).leftJoin(changesets, theirChangeset()).$dynamic()
  const details = () =>
    orm.select(detailColumns).from(dispatches).leftJoin(changesets, theirChangeset()).$dynamic()
  const ids = () => orm.select({ id: dispatches.id }).from(dispatches).$dynamic()
  // Each found by an index of its own, whatever else there is (a CROSS JOIN keeps its order). Who asks for more has
  // not ended.
  const waitingIds = () => sql`
    SELECT id FROM dispatches WHERE status IN ('starting','running')
    UNION SELECT id FROM changesets WHERE state = 'review'
    UNION SELECT turn.dispatch_id FROM changesets first CROSS JOIN changeset_turns turn ON turn.changeset_id = first.id
      WHERE first.state = 'review'`
  const olderThanBefore = () => {
    const before = orm
      .select({ createdAt: dispatches.createdAt })
      .from(dispatches)
      .where(eq(dispatches.id, parameter('before')))
    return sql`(${dispatches.createdAt}, ${dispatches.id}) < (${before}, ${parameter('before')})`
  }
  return {
    insert: compile(sqlite, () => {
      const who = given('id', 'repoId', 'parentId', 'name', 'agent', 'role', 'phase', 'prompt')
      const contract = given('sandbox', 'sandboxSpec', 'level', 'boundary', 'roots', 'command')
      const state = given('status', 'error', 'createdAt', 'endedAt')
      const supervisor = given('supervisorPid', 'supervisorStartTicks')
      return orm.insert(dispatches).values({ ...who, ...contract, ...state, ...supervisor })
    }),
    takeOver: compile(sqlite, () =>
      orm
        .update(dispatches)
        .set(given('supervisorPid', 'supervisorStartTicks'))
        .where(and(isThisOne(), eq(dispatches.status, 'starting'))),
    ),
    run: compile(sqlite, () =>
      orm
        .update(dispatches)
        .set({ status: 'running', ...given('startedAt', 'supervisorPid', 'supervisorStartTicks') })
        .where(and(isThisOne(), eq(dispatches.status, 'starting'))),
    ),
    setBoundary: compile(sqlite, () =>
      orm.update(dispatches).set(given('boundary')).where(and(isThisOne(), isUnfinished())),
    ),
    anchor: compile(sqlite, () =>
      orm.update(dispatches).set(given('lastEventHash')).where(and(isThisOne(), isUnfinished())),
    ),
    finish: compile(sqlite, () =>
      orm
        .update(dispatches)
        .set({
          ...given('status', 'exitCode', 'error', 'endedAt', 'lastEventHash'),
          // Another program may have left one in a row that had not ended: it is written once.
          sandboxEffective: sql`COALESCE(${dispatches.sandboxEffective}, ${parameter('sandboxEffective')})`,
        })
        .where(and(isThisOne(), isUnfinished())),
    ),
    status: compile<{ status: DispatchStatus }>(sqlite, () =>
      orm.select({ status: dispatches.status }).from(dispatches).where(isThisOne()),
    ),
    get: compile<DetailFound>(sqlite, () => details().where(isThisOne())),
    newest: compile<RowFound>(sqlite, () =>
      rows()
        .orderBy(...newestFirst())
        .limit(parameter('limit')),
    ),
    older: compile<RowFound>(sqlite, () =>
      rows()
        .where(olderThanBefore())
        .orderBy(...newestFirst())
        .limit(parameter('limit')),
    ),
    waiting: compile<RowFound>(sqlite, () =>
      rows()
        .where(sql`${dispatches.id} IN (${waitingIds()})`)
        .orderBy(...newestFirst()),
    ),
    byPrefix: compile<{ id: DispatchId }>(sqlite, () =>
      ids()
        .where(and(gte(dispatches.id, parameter('from')), lt(dispatches.id, parameter('to'))))
        .orderBy(asc(dispatches.id))
        .limit(6),
    ),
    children: compile<{ id: DispatchId }>(sqlite, () =>
      ids()
        .where(eq(dispatches.parentId, parameter('id')))
        .orderBy(...oldestFirst()),
    ),
    unfinished: compile<DetailFound>(sqlite, () =>
      details()
        .where(isUnfinished())
        .orderBy(...oldestFirst()),
    ),
  }
}
