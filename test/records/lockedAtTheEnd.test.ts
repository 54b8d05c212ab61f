import Sqlite from 'better-sqlite3'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Bench, waitUntil } from '../dispatch/harness.ts'

test('records that are locked when the agent ends cost no work: it is told, and captured when one looks', async () => {
  await using bench = await Bench.create()
  const id = await bench.spawn('echo 1 > early.txt; read line; echo 2 > late.txt')
  await waitUntil(
    'its work is seen while it runs',
    async () => (await bench.client.call('dispatch.get', { id })).changeset?.state === 'active',
    30_000,
  )
  const [repo] = await readdir(join(bench.dataDir, 'repos'))
  const log = join(bench.dataDir, 'repos', repo!, 'invocations', id, 'events.ndjson')
  const other = new Sqlite(join(bench.dataDir, 'orangery.db'))
  other.exec('BEGIN IMMEDIATE')
  try {
    await bench.client.call('dispatch.input', { id, data: 'go\n' })
    // Longer than the supervisor's patience with a lock.
    await waitUntil(
      'the supervisor has given up capturing',
      async () => (await readFile(log, 'utf8')).includes('"type":"DispatchEnded"'),
      60_000,
    )
  } finally {
    other.close()
  }
  const ended = await bench.ended(id)
  expect(ended).toMatchObject({ status: 'completed', changeset: { state: 'active', files: 1 } })
  expect(ended.error).toMatch(/^capture: \S+orangery\.db: another process keeps the records locked; what was/)
  expect(await bench.client.call('dispatch.verify', { id })).toMatchObject({ ok: true })

  const changeset = await bench.client.call('changeset.get', { id })
  expect(changeset).toMatchObject({ state: 'review' })
  expect(changeset.files.map(({ path }) => path)).toEqual(['early.txt', 'late.txt'])
})
