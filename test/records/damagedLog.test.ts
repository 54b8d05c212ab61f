import { appendFile, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createEngine } from '../../src/engine/index.ts'
import { createEventLog } from '../../src/engine/store/index.ts'
import { Bench, killSupervisor, processesWith, waitUntil } from '../dispatch/harness.ts'

/** Kills the supervisor of an agent that has written a file, lets somebody at its log, and starts anew. */
async function recovered(bench: Bench, tamper: (log: string) => Promise<void>) {
  const id = await bench.spawn('echo kept > kept.txt; sleep 8671')
  await waitUntil(
    'its work is seen while it runs',
    async () => (await bench.client.call('dispatch.get', { id })).changeset?.state === 'active',
    30_000,
  )
  await bench.engine.close()
  await killSupervisor(bench.dataDir)
  await waitUntil('all is gone', async () => (await processesWith('sleep\x008671')).length === 0)
  const [repo] = await readdir(join(bench.dataDir, 'repos'))
  const log = join(bench.dataDir, 'repos', repo!, 'invocations', id, 'events.ndjson')
  await tamper(log)
  const tampered = await readFile(log).catch(() => null)
  bench.engine = await createEngine({ dataDir: bench.dataDir, host: 'command-line' })
  const dispatch = await bench.ended(id)
  const left = await readFile(log).catch(() => null)
  if (dispatch.error === 'its supervisor vanished')
    expect(left?.subarray(0, tampered?.length)).toEqual(tampered)
  else expect(left).toEqual(tampered)
  expect((await readdir(join(log, '..'))).filter((name) => name.includes('.torn-'))).toEqual([])
  // SPEC 5: one that was interrupted goes to review all the same.
  expect(dispatch.changeset).toMatchObject({ state: 'review', files: 1 })
  return { dispatch, log, proof: () => bench.client.call('dispatch.verify', { id }) }
}

test('an end that somebody wrote into the log is not believed, and stays there to be seen', async () => {
  await using bench = await Bench.create()
  const forged = {
    seq: 99,
    at: '2026-01-28T12:05:00.000Z',
    prev: 'a'.repeat(64),
    event: { type: 'DispatchEnded', status: 'completed', error: null },
    hash: 'b'.repeat(64),
  }
  const { dispatch, log, proof } = await recovered(bench, async (path) => {
    await appendFile(path, `${JSON.stringify(forged)}\n`)
    // What it ran under is the log's to prove, not another file's.
    await rm(join(path, '..', 'contract.json'))
  })
  expect(dispatch).toMatchObject({
    status: 'interrupted',
    exit_code: null,
    error: expect.stringMatching(
      /^its supervisor vanished; the event log is damaged: line \d+ is not what was written$/,
    ),
    sandbox_effective: {
      level: 1,
      access_mode: 'workspace-write',
      workspace: 'overlay',
      declared_equals_actual: { ok: true },
    },
  })
  expect(await proof()).toMatchObject({ ok: false, problem: expect.stringMatching(/not what was written/) })
  // Nor is it whole for who cuts the damage off again.
  const lines = (await readFile(log, 'utf8')).trimEnd().split('\n')
  await writeFile(log, lines.slice(0, -1).join('\n') + '\n')
  expect(await proof()).toMatchObject({ ok: false, events: lines.length - 1 })
})

test('what somebody changed in the log does not get into the record, nor anything after it', async () => {
  await using bench = await Bench.create()
  let before = 0
  const { dispatch, proof } = await recovered(bench, async (path) => {
    const text = await readFile(path, 'utf8')
    before = text.split('\n').findIndex((line) => line.includes('"driver":"bubblewrap'))
    expect(before).toBeGreaterThan(0)
    await writeFile(path, text.replaceAll(/"driver":"bubblewrap[^"]*"/g, '"driver":"forged 1.0"'))
  })
  expect(dispatch.status).toBe('interrupted')
  expect(dispatch.error).toContain(`the event log is damaged: line ${before + 1} `)
  expect(dispatch.sandbox_effective).toMatchObject({ driver: 'none', declared_equals_actual: { ok: false } })
  expect(await proof()).toMatchObject({ ok: false, events: before })
})

test('what the log proves of a run whose end nobody recorded is on record, its exit code included', async () => {
  await using bench = await Bench.create()
  const { dispatch, proof } = await recovered(bench, async (path) => {
    await using log = await createEventLog(path)
    log.append({ type: 'AgentEnded', exit_code: 3, signal: null })
  })
  expect(dispatch).toMatchObject({ status: 'interrupted', exit_code: 3, error: 'its supervisor vanished' })
  expect(await proof()).toMatchObject({ ok: true })
})

test('lines that somebody cut off the end of a log, before anybody looked at it again, are missed', async () => {
  await using bench = await Bench.create()
  const { dispatch, proof } = await recovered(bench, async (path) => {
    const lines = (await readFile(path, 'utf8')).trimEnd().split('\n')
    const started = lines.findIndex((line) => line.includes('"AgentStarted"'))
    expect(started).toBeGreaterThan(2)
    await writeFile(path, lines.slice(0, started).join('\n') + '\n')
  })
  expect(dispatch).toMatchObject({
    status: 'interrupted',
    error: expect.stringMatching(/the event log is damaged: lines are missing from its end/),
  })
  expect(await proof()).toMatchObject({ ok: false })
})

test('a log that is gone is missed, and what the agent wrote goes to review', async () => {
  await using bench = await Bench.create()
  const { dispatch, proof } = await recovered(bench, (path) => rm(path))
  expect(dispatch).toMatchObject({
    status: 'interrupted',
    error: 'its supervisor vanished; the event log is missing',
    sandbox_effective: null,
  })
  expect(await proof()).toEqual({ ok: false, events: 0, problem: 'the event log is missing' })
})
