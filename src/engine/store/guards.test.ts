import Sqlite, { type Database } from 'better-sqlite3'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { DispatchId } from '../../shared/ids.ts'
import { openStore, type Store } from './index.ts'
import { aDispatch, anOutcome, scratchFolder } from './testing.ts'

const running = '20260128120500-0001' as DispatchId
const ended = '20260128120500-0002' as DispatchId
const refusedAtPreflight = '20260128120500-0003' as DispatchId

let scope: AsyncDisposableStack
let store: Store
/** Someone else's connection: none of our code, none of our pragmas. */
let stranger: Database

beforeEach(async () => {
  scope = new AsyncDisposableStack()
  const scratch = scope.use(await scratchFolder())
  store = scope.use(await openStore(scratch.path))
  const supervisor = { startedAt: '2026-01-28T12:05:01.000Z', supervisorPid: 1, supervisorStartTicks: 1 }
  for (const id of [running, ended]) {
    store.dispatches.create(aDispatch({ id, sandboxSpec: '{"access_mode":"read-only"}' }))
    store.dispatches.markRunning(id, supervisor)
  }
  store.dispatches.finish(ended, anOutcome())
  store.dispatches.create(aDispatch({ id: refusedAtPreflight, status: 'preflight_failed' }))
  stranger = new Sqlite(`${scratch.path}/orangery.db`)
  stranger.pragma('recursive_triggers = OFF')
  scope.defer(() => void stranger.close())
})
afterEach(() => scope.disposeAsync())

const everything = () => stranger.prepare('SELECT rowid, * FROM dispatches ORDER BY rowid').all()

const attacks: readonly (readonly [string, string])[] = [
  ['changing a spec', `UPDATE dispatches SET sandbox_spec = '{}' WHERE id = '${running}'`],
  ['clearing a spec', `UPDATE dispatches SET sandbox_spec = NULL WHERE id = '${running}'`],
  [
    'a spec as a blob',
    `UPDATE dispatches SET sandbox_spec = CAST(sandbox_spec AS BLOB) WHERE id = '${running}'`,
  ],
  ['giving a spec later', `UPDATE dispatches SET sandbox_spec = '{}' WHERE id = '${refusedAtPreflight}'`],
  ['changing the prompt', `UPDATE dispatches SET prompt = 'something nicer' WHERE id = '${running}'`],
  ['changing the roots', `UPDATE dispatches SET roots = '["/"]' WHERE id = '${running}'`],
  ['changing the command', `UPDATE dispatches SET command = '["rm"]' WHERE id = '${running}'`],
  ['changing the level', `UPDATE dispatches SET level = 3 WHERE id = '${running}'`],
  ['changing the parent', `UPDATE dispatches SET parent_id = '${ended}' WHERE id = '${running}'`],
  ['a second effective', `UPDATE dispatches SET sandbox_effective = '{}' WHERE id = '${ended}'`],
  ['clearing the effective', `UPDATE dispatches SET sandbox_effective = NULL WHERE id = '${ended}'`],
  ['an effective before the end', `UPDATE dispatches SET sandbox_effective = '{}' WHERE id = '${running}'`],
  [
    'an effective for what never ran',
    `UPDATE dispatches SET sandbox_effective = '{}' WHERE id = '${refusedAtPreflight}'`,
  ],
  [
    'an effective with a failed preflight',
    `UPDATE dispatches SET sandbox_effective = '{}', status = 'preflight_failed' WHERE id = '${running}'`,
  ],
  ['bringing a dispatch back to life', `UPDATE dispatches SET status = 'running' WHERE id = '${ended}'`],
  ['another outcome', `UPDATE dispatches SET status = 'failed', exit_code = 1 WHERE id = '${ended}'`],
  ['another exit code', `UPDATE dispatches SET exit_code = 1 WHERE id = '${ended}'`],
  ['another anchor for the log', `UPDATE dispatches SET last_event_hash = 'x' WHERE id = '${ended}'`],
  ['another id', `UPDATE dispatches SET id = 'x' WHERE id = '${ended}'`],
  ['taking the id of another', `UPDATE OR REPLACE dispatches SET id = '${ended}' WHERE id = '${running}'`],
  [
    'taking the place of another',
    `UPDATE OR REPLACE dispatches SET rowid = (SELECT rowid FROM dispatches WHERE id = '${ended}')
     WHERE id = '${running}'`,
  ],
  ['deleting one', `DELETE FROM dispatches WHERE id = '${ended}'`],
  ['deleting all', `DELETE FROM dispatches`],
  [
    'replacing by id',
    `INSERT OR REPLACE INTO dispatches (id, status, created_at, sandbox_spec) VALUES ('${ended}', 'starting', '', '{}')`,
  ],
  [
    'the REPLACE command',
    `REPLACE INTO dispatches (id, status, created_at) VALUES ('${running}', 'starting', '')`,
  ],
  [
    'replacing by row number',
    `INSERT OR REPLACE INTO dispatches (rowid, id, status, created_at)
     VALUES ((SELECT rowid FROM dispatches WHERE id = '${ended}'), 'new', 'starting', '')`,
  ],
  [
    'an upsert',
    `INSERT INTO dispatches (id, status, created_at) VALUES ('${running}', 'starting', '')
     ON CONFLICT (id) DO UPDATE SET sandbox_spec = '{}'`,
  ],
  ['a status nobody knows', `UPDATE dispatches SET status = 'banana' WHERE id = '${running}'`],
  ['going back to starting', `UPDATE dispatches SET status = 'starting' WHERE id = '${running}'`],
  ['another name', `UPDATE dispatches SET name = 'another' WHERE id = '${running}'`],
  ['another beginning', `UPDATE dispatches SET started_at = 'later' WHERE id = '${running}'`],
  ['a beginning after the end', `UPDATE dispatches SET started_at = 'x' WHERE id = '${refusedAtPreflight}'`],
  ['another boundary after the end', `UPDATE dispatches SET boundary = 'full' WHERE id = '${ended}'`],
  ['another supervisor after the end', `UPDATE dispatches SET supervisor_pid = 7 WHERE id = '${ended}'`],
  [
    'a row that begins with an effective',
    `INSERT INTO dispatches (id, status, created_at, sandbox_effective) VALUES ('new', 'starting', '', '{}')`,
  ],
]

test.each(attacks)('the database itself refuses %s', (_, statement) => {
  const before = everything()
  expect(() => stranger.prepare(statement).run()).toThrow(/SQLITE_CONSTRAINT|immutable|once|never|keeps/)
  expect(everything()).toEqual(before)
})

test('a refused statement takes the rest of its transaction with it only if its writer wants so', () => {
  stranger.exec('BEGIN')
  expect(() => stranger.exec(`UPDATE dispatches SET sandbox_spec = '{}'`)).toThrow(/immutable/)
  stranger.exec(`UPDATE dispatches SET boundary = 'network' WHERE id = '${running}'`)
  stranger.exec('COMMIT')
  expect(store.dispatches.get(running)).toMatchObject({ boundary: 'network', status: 'running' })
})

test('what has to change during a life may change: the guards stop nothing else', () => {
  expect(() =>
    stranger
      .prepare(
        `UPDATE dispatches SET status = 'completed', sandbox_effective = '{"turns_used":1}', exit_code = 0,
         ended_at = 'now', last_event_hash = 'h', boundary = 'full' WHERE id = ?`,
      )
      .run(running),
  ).not.toThrow()
  expect(store.dispatches.get(running)).toMatchObject({
    status: 'completed',
    sandbox_effective: { turns_used: 1 },
  })
})
