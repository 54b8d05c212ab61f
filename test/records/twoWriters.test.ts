import Sqlite from 'better-sqlite3'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { expect, test } from 'vitest'
import { ended, Place } from '../../src/cli/testing/orangery.ts'
import { run } from '../../src/engine/base/process.ts'
import { scratchFolder } from '../../src/engine/store/testing.ts'
import { webSocketChannel } from '../../src/serve/channel.ts'
import type { Client } from '../../src/shared/api.ts'
import { connectClient } from '../../src/shared/wire/index.ts'
import { recordSome } from './recordSome.ts'

const each = 500

/** The window's end of the wire, let in as a browser is. */
async function openWindow(host: ReturnType<Place['start']>): Promise<Client> {
  const [line] = (await once(host.stdout, 'data')) as [Buffer]
  const { url } = JSON.parse(line.toString()) as { url: string }
  const { origin, host: address } = new URL(url)
  const cookie = (await fetch(url)).headers.get('set-cookie')?.split(';')[0] ?? ''
  const socket = new WebSocket(`ws://${address}/wire`, { headers: { cookie, origin } })
  await once(socket, 'open')
  return connectClient(webSocketChannel(socket))
}

test('window and command line record 1,000 dispatches at once: no row lost, nobody sees a lock, all is heard', async () => {
  using place = new Place('launcher')
  const host = place.start({}, 'serve', '--json')
  const end = ended(host)
  const window = await openWindow(host)
  const heard = new Set<string>()
  const listening = new AbortController()
  const listener = (async () => {
    for await (const { ids } of window.open('changes', {}, listening.signal))
      ids.forEach((id) => heard.add(id))
  })()
  const script = join(import.meta.dirname, 'commandLine.ts')
  const [fromWindow, commandLine] = await Promise.all([
    (async () => {
      const made: string[] = []
      while (made.length < each) made.push(...(await recordSome(window, place.folder, 50)))
      return made
    })(),
    run(process.execPath, [script, place.dataDir, place.folder, String(each)], { env: place.env }),
  ])
  expect(commandLine.stderr.toString()).toBe('')
  const made = new Set([...fromWindow, ...(JSON.parse(commandLine.stdout.toString()) as string[])])
  expect(made.size).toBe(2 * each)

  const database = new Sqlite(join(place.dataDir, 'orangery.db'), { readonly: true })
  try {
    const unfinished = database.prepare(
      `SELECT count(*) FROM dispatches WHERE status IN ('starting','running')`,
    )
    for (
      let waited = 0;
      (unfinished.pluck().get() !== 0 || heard.size < made.size) && waited < 60_000;
      waited += 100
    )
      await sleep(100)
    expect(heard).toEqual(made)
    expect(database.pragma('integrity_check', { simple: true })).toBe('ok')
    const rows = database.prepare(`SELECT id, status, sandbox_spec FROM dispatches`).all() as {
      id: string
      status: string
      sandbox_spec: string
    }[]
    expect(new Set(rows.map(({ id }) => id))).toEqual(made)
    expect(new Set(rows.map(({ sandbox_spec }) => sandbox_spec))).toEqual(new Set(['{ }']))
    const of = (status: string) => rows.filter((row) => row.status === status).length
    expect([of('completed'), of('preflight_failed')]).toEqual([20, 980])
    // One more than a single call gives: none is left out of a longer list.
    const [last] = await recordSome(window, place.folder, 1)
    const listed = await place.orangery('dispatch', 'list', '--limit', '5000', '--json')
    const ids = (JSON.parse(listed.stdout) as { id: string }[]).map(({ id }) => id)
    expect(new Set(ids)).toEqual(new Set([...made, last]))
  } finally {
    database.close()
    listening.abort()
    await listener
    window.close()
    host.kill('SIGTERM')
  }
  expect((await end).stderr).toBe('')
}, 400_000)

test('two processes record 1,000 whole lives at once: no row lost, no lock seen, all is heard', async () => {
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
