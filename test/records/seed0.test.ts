import Sqlite from 'better-sqlite3'
import { appendFile, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'
import { createEngine } from '../../src/engine/index.ts'
import type { DispatchDetail } from '../../src/shared/dispatch.ts'
import { Bench, killSupervisor, processesWith, waitUntil } from '../dispatch/harness.ts'

function storedSpec(dataDir: string, id: string): Buffer | null {
  const database = new Sqlite(join(dataDir, 'orangery.db'), { readonly: true })
  try {
    const row = database
      .prepare('SELECT CAST(sandbox_spec AS BLOB) AS bytes FROM dispatches WHERE id = ?')
      .get(id)
    return (row as { bytes: Buffer | null }).bytes
  } finally {
    database.close()
  }
}

async function statusOf(place: Place, id: string): Promise<DispatchDetail> {
  const { code, stdout, stderr } = await place.orangery('dispatch', 'status', id, '--json')
  expect(stderr).toBe('')
  expect(code).toBe(0)
  return JSON.parse(stdout) as DispatchDetail
}

async function spawned(place: Place, ...options: string[]): Promise<string> {
  const { code, stdout, stderr } = await place.orangery(
    'dispatch',
    'spawn',
    '--wait',
    ...options,
    '--',
    'true',
  )
  expect(stderr).toBe('')
  expect(code).toBe(0)
  return stdout.trim()
}

test('spawn with --sandbox-spec, complete, and dispatch status --json shows both fields as objects', async () => {
  using place = new Place('launcher')
  const id = await spawned(place, `--sandbox-spec={"tools_allowed":["Read"]}`)
  const status = await statusOf(place, id)
  expect(status.sandbox_spec).toEqual({ tools_allowed: ['Read'] })
  expect(status.sandbox_effective).toMatchObject({ tools_used: [], violations: [], level: 1 })
  const human = await place.orangery('dispatch', 'status', id)
  expect(human.stdout).toMatch(/tools_allowed\s+Read\s+used: \(none\)/)
})

test('a spec from a file is recorded byte for byte, and no spec stays NULL', async () => {
  using place = new Place('launcher')
  const text = '{\n\t"access_mode" : "workspace-write",\r\n  "später": "☂"\n}\n\n'
  await writeFile(join(place.folder, 'contract.json'), text)
  const withSpec = await spawned(place, '--sandbox-spec=@contract.json')
  expect(storedSpec(place.dataDir, withSpec)).toEqual(Buffer.from(text))
  const without = await spawned(place)
  expect(storedSpec(place.dataDir, without)).toBeNull()
  expect((await statusOf(place, without)).sandbox_spec).toBeNull()
})

test.each([
  ['not JSON', '{access_mode: full}', 65],
  ['a contradiction', '{"level":2,"isolation":"os"}', 65],
  ['another contradiction', '{"access_mode":"read-only","boundary":"full"}', 65],
  ['a file that is not there', '@nowhere.json', 66],
])('a spec that is %s leaves no row, one line and a hint', async (_, spec, code) => {
  using place = new Place('launcher')
  const ran = await place.orangery('dispatch', 'spawn', `--sandbox-spec=${spec}`, '--', 'true')
  expect(ran.code).toBe(code)
  expect(ran.stderr).toMatch(/^orangery: [^\n]+\n {2}hint: [^\n]+\n$/)
  expect(JSON.parse((await place.orangery('dispatch', 'list', '--json')).stdout)).toEqual([])
})

test('a supervisor killed in the middle of a line leaves a dispatch that is interrupted and a log that proves whole', async () => {
  await using bench = await Bench.create()
  const id = await bench.spawn('echo kept > kept.txt; sleep 8651', { sandbox_spec: '{"max_turns":3}' })
  await bench.running(id)
  await waitUntil('sleep runs', async () => (await processesWith('sleep\x008651')).length > 0)
  const before = await events(bench, id)
  await killSupervisor(bench.dataDir)
  await waitUntil(
    'everything inside is gone',
    async () => (await processesWith('sleep\x008651')).length === 0,
  )
  const log = await eventLog(bench, id)
  await appendFile(log, '{"seq":99,"at":"2026-')
  await expect(bench.client.call('dispatch.input', { id, data: 'x' })).rejects.toMatchObject({ kind: 'busy' })

  expect(await bench.ended(id)).toMatchObject({
    status: 'interrupted',
    sandbox_spec: { max_turns: 3 },
    sandbox_effective: {
      level: 1,
      declared_equals_actual: { ok: true },
      // What nobody could measure any more is unknown, not nothing.
      resources: { wall_ms: expect.any(Number), cpu_ms: null, max_rss_mb: null, disk_mb: expect.any(Number) },
    },
  })
  const proof = await bench.client.call('dispatch.verify', { id })
  expect(proof).toMatchObject({ ok: true, problem: null })
  const after = await events(bench, id)
  expect(after).toHaveLength(proof.events)
  expect(after.slice(0, before.length)).toEqual(before)
  expect(after.at(-1)?.event).toMatchObject({ type: 'DispatchEnded', status: 'interrupted' })
  const torn = (await readdir(join(log, '..'))).find((name) => name.includes('.torn-'))
  expect(await readFile(join(log, '..', torn!), 'utf8')).toBe('{"seq":99,"at":"2026-')

  await writeFile(log, (await readFile(log, 'utf8')).replace('"level":1', '"level":2'))
  expect(await bench.client.call('dispatch.verify', { id })).toMatchObject({ ok: false, events: 0 })
})

test('a supervisor that died between its last event and the row is taken at its word', async () => {
  await using bench = await Bench.create()
  const done = await bench.spawn('echo x > x.txt; exit 3')
  const before = await bench.ended(done)
  const proof = await bench.client.call('dispatch.verify', { id: done })
  // The row as it was just before its end, under a supervisor that is gone.
  const database = new Sqlite(join(bench.dataDir, 'orangery.db'))
  database.exec(
    ['outcome_is_final', 'effective_comes_with_the_end', 'never_go_back', 'rest_when_ended']
      .map((name) => `DROP TRIGGER dispatches_${name};`)
      .join(''),
  )
  database
    .prepare(
      `UPDATE dispatches SET status = 'running', exit_code = NULL, ended_at = NULL, sandbox_effective = NULL,
       last_event_hash = NULL, supervisor_start_ticks = 1 WHERE id = ?`,
    )
    .run(done)
  database.close()
  await bench.engine.close()
  bench.engine = await createEngine({ dataDir: bench.dataDir, host: 'command-line' })
  const after = await bench.client.call('dispatch.get', { id: done })
  expect(after).toMatchObject({ status: 'failed', exit_code: 3, changeset: before.changeset })
  expect(await bench.client.call('dispatch.verify', { id: done })).toEqual(proof)
})

test('a log that was removed to save room is said to be gone, not shown as empty', async () => {
  using place = new Place('launcher')
  const id = await spawned(place)
  const before = await place.orangery('dispatch', 'events', id)
  expect(before).toMatchObject({ code: 0, stderr: '' })
  expect((await place.orangery('disk', '--keep-logs', '0MB')).code).toBe(0)
  for (const options of [[], ['--json'], ['--follow']]) {
    const after = await place.orangery('dispatch', 'events', id, ...options)
    expect(after.stdout.trim()).toBe(options[0] === '--json' ? '[]' : '')
    expect(after.stderr).toMatch(/^orangery: event log of \S+: the event log was removed on [^\n]+\n$/)
  }
})

test('killing a parent ends its children and their children', async () => {
  await using bench = await Bench.create()
  const parent = await bench.spawn('sleep 8661')
  await bench.running(parent)
  const child = await bench.spawn('sleep 8662', { parent })
  await bench.running(child)
  const grandchild = await bench.spawn('sleep 8663', { parent: child })
  await bench.running(grandchild)
  await bench.client.call('dispatch.kill', { id: parent })
  for (const id of [parent, child, grandchild]) expect((await bench.ended(id)).status, id).toBe('cancelled')
  expect(await processesWith('sleep\x00866')).toEqual([])
  expect((await bench.client.call('dispatch.get', { id: grandchild })).parent_id).toBe(child)
})

test('a child can never ask for more than its parent has', async () => {
  await using bench = await Bench.create()
  const parent = await bench.spawn('sleep 8671', {
    sandbox_spec:
      '{"boundary":"readwrite","outputs":{"mode":"restricted","allow":["api.test"]},"limits":{"timeout_s":60}}',
  })
  await bench.running(parent)
  for (const spec of [
    '{"boundary":"full"}',
    '{"access_mode":"full"}',
    '{"isolation":"none"}',
    '{"changeset":"none"}',
    '{"outputs":{"mode":"open"}}',
    '{"outputs":{"allow":["evil.test"]}}',
    '{"outputs":{"pins":{"db.test:1":"127.0.0.1:1"}}}',
  ]) {
    await expect(bench.spawn('true', { parent, sandbox_spec: spec }), spec).rejects.toMatchObject({
      kind: 'refused',
    })
  }
  for (const more of [{}, { sandbox_spec: '{"roots":["/usr"]}' }]) {
    const asking = bench.spawn('true', { parent, roots: ['/usr'], ...more })
    await expect(asking).rejects.toMatchObject({ kind: 'refused' })
  }
  // The control: what stays within the parent's rights runs.
  const child = await bench.spawn('true', { parent, sandbox_spec: '{"boundary":"readonly"}' })
  expect(await bench.ended(child)).toMatchObject({ status: 'completed', parent_id: parent })
  await bench.client.call('dispatch.kill', { id: parent })
})

test('a link or dots in a root lead no child out of what its parent has, nor into what is hidden from it', async () => {
  await using bench = await Bench.create()
  const outside = join(bench.base, 'outside')
  await mkdir(outside)
  await mkdir(join(bench.project, 'inside', 'deep'), { recursive: true })
  await symlink(outside, join(bench.project, 'link'))
  await symlink(join(bench.project, 'inside'), join(bench.project, 'harmless'))
  const attempt = (parent: string, path: string) =>
    bench
      .spawn('true', { parent, roots: [path] })
      .then((id) => bench.ended(id))
      .then(
        (dispatch) => dispatch.status,
        (error: { kind: string }) => error.kind,
      )
  const open = await bench.spawn('sleep 8681')
  const blinkered = await bench.spawn('sleep 8682', { sandbox_spec: '{"hide":["inside"]}' })
  await Promise.all([bench.running(open), bench.running(blinkered)])
  expect(await attempt(open, join(bench.project, 'link'))).toBe('refused')
  expect(await attempt(open, `${bench.project}/../outside`)).toBe('refused')
  expect(await attempt(open, outside)).toBe('refused')
  expect(await attempt(blinkered, join(bench.project, 'inside', 'deep'))).toBe('refused')
  // The controls: inside by any way is inside, and one's own roots are one's own.
  expect(await attempt(open, join(bench.project, 'inside'))).toBe('completed')
  expect(await attempt(open, join(bench.project, 'harmless'))).toBe('completed')
  expect(await attempt(blinkered, bench.project)).toBe('completed')
  for (const id of [open, blinkered]) await bench.client.call('dispatch.kill', { id })
})

async function eventLog(bench: Bench, id: string): Promise<string> {
  const [repo] = await readdir(join(bench.dataDir, 'repos'))
  return join(bench.dataDir, 'repos', repo!, 'invocations', id, 'events.ndjson')
}

async function events(bench: Bench, id: string) {
  const read = []
  for await (const event of bench.client.open('dispatch.events', { id, follow: false })) read.push(event)
  return read
}
