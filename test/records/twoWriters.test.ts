import Sqlite from 'better-sqlite3'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run } from '../../src/engine/base/process.ts'
import { scratchFolder } from '../../src/engine/store/testing.ts'

test('window and command line record 1,000 dispatches at once: no row lost, nobody sees a lock, all is heard', async () => {
  await using scratch = await scratchFolder()
  const dataDir = join(scratch.path, 'data')
  const writer = async (kind: 'window' | 'command') => {
    const script = join(import.meta.dirname, 'writer.ts')
    const result = await run(process.execPath, [script, dataDir, kind, '500', '500'])
    expect(result.stderr.toString()).toBe('')
    expect(result.code).toBe(0)
    return JSON.parse(result.stdout.toString()) as { made: string[]; heard: string[] }
  }
  // Both start on a folder that is not there yet: creating the database is part of the race.
  const [window, command] = await Promise.all([writer('window'), writer('command')])
  const made = new Set([...window.made, ...command.made])
  expect(made.size).toBe(1_000)
  expect(new Set(window.heard)).toEqual(made)

  const database = new Sqlite(join(dataDir, 'orangery.db'), { readonly: true })
  try {
    expect(database.pragma('integrity_check', { simple: true })).toBe('ok')
    const rows = database
      .prepare(`SELECT id, agent, status, sandbox_spec, sandbox_effective FROM dispatches`)
      .all()
    expect(new Set(rows.map((row) => (row as { id: string }).id))).toEqual(made)
    expect(new Set(rows.map((row) => (row as { status: string }).status))).toEqual(new Set(['completed']))
    expect(database.prepare(`SELECT count(*) AS n FROM dispatches WHERE sandbox_spec = '{ }'`).get()).toEqual(
      { n: 1_000 },
    )
  } finally {
    database.close()
  }
})
