import Sqlite from 'better-sqlite3'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ended, Place } from '../../src/cli/testing/orangery.ts'
import { isTerminal, type DispatchRow } from '../../src/shared/dispatch.ts'
import { Bench, processesWith } from '../dispatch/harness.ts'

function supervisorOf(bench: Bench, id: string): number {
  using database = Object.assign(new Sqlite(join(bench.dataDir, 'orangery.db'), { readonly: true }), {
    [Symbol.dispose](this: { close(): void }) {
      this.close()
    },
  })
  const row = database.prepare('SELECT supervisor_pid AS pid FROM dispatches WHERE id = ?').get(id)
  return (row as { pid: number }).pid
}

test('a kill ends parent, children and grandchildren though the supervisor of a child is stopped', async () => {
  await using bench = await Bench.create()
  const parent = await bench.spawn('sleep 8691')
  await bench.running(parent)
  const stopped = await bench.spawn('sleep 8692', { parent })
  const other = await bench.spawn('sleep 8693', { parent })
  await Promise.all([bench.running(stopped), bench.running(other)])
  const grandchild = await bench.spawn('sleep 8694', { parent: stopped })
  await bench.running(grandchild)
  const pid = supervisorOf(bench, stopped)
  process.kill(pid, 'SIGSTOP')
  try {
    await bench.client.call('dispatch.kill', { id: parent })
  } finally {
    try {
      process.kill(pid, 'SIGCONT')
    } catch {
      // It is gone, as it should be.
    }
  }
  for (const id of [parent, other, grandchild]) expect((await bench.ended(id)).status, id).toBe('cancelled')
  expect((await bench.ended(stopped)).status).toBe('interrupted')
  expect(await processesWith('sleep\x00869')).toEqual([])
})

test('a parent that was killed or has ended gets no more children', async () => {
  await using bench = await Bench.create()
  const killed = await bench.spawn('sleep 8701')
  const over = await bench.spawn('true')
  await bench.running(killed)
  await bench.client.call('dispatch.kill', { id: killed })
  await bench.ended(over)
  for (const parent of [killed, over]) {
    await expect(bench.spawn('sleep 8702', { parent })).rejects.toMatchObject({
      code: 'dispatch.parent_ended',
      kind: 'refused',
    })
  }
  expect(await bench.client.call('dispatch.list', {})).toHaveLength(2)
})

test('a kill reaches the children that are spawned while it goes on', async () => {
  await using bench = await Bench.create()
  const parent = await bench.spawn('sleep 8711')
  await bench.running(parent)
  const spawns = [0, 80, 300].map(async (ms) => {
    await new Promise((resolve) => setTimeout(resolve, ms))
    return bench.spawn('sleep 8712', { parent }).catch((error: { kind: string }) => error.kind)
  })
  await new Promise((resolve) => setTimeout(resolve, 90))
  await bench.client.call('dispatch.kill', { id: parent })
  const outcomes = await Promise.all(spawns)
  const rows = await bench.client.call('dispatch.list', {})
  expect(rows.filter((row) => !isTerminal(row.status))).toEqual([])
  // Each either came in time and was ended, or was refused; a start that was cut short says so.
  for (const outcome of outcomes) expect(outcome).toMatch(/^(\d{14}-|refused$|busy$)/)
  expect(await processesWith('sleep\x00871')).toEqual([])
})

test('a parent in the foreground takes its children along, by Ctrl-C and by kill -9', async () => {
  for (const signal of ['SIGINT', 'SIGKILL'] as const) {
    using place = new Place('launcher')
    const run = place.start({}, 'run', '-q', '--', 'sh', '-c', 'echo ready; exec sleep 8721')
    run.stdin.end()
    const end = ended(run)
    await once(run.stdout, 'data')
    const list = async () =>
      JSON.parse((await place.orangery('dispatch', 'list', '--json')).stdout) as DispatchRow[]
    const [parent] = await list()
    const child = await place.orangery('dispatch', 'spawn', '--parent', parent!.id, '--', 'sleep', '8722')
    expect(child.stderr).toBe('')
    run.kill(signal)
    await end
    await place.orangery('dispatch', 'wait', child.stdout.trim())
    const rows = new Map<string, string>((await list()).map((row) => [row.id, row.status]))
    expect(rows.get(parent!.id)).toBe(signal === 'SIGINT' ? 'cancelled' : 'interrupted')
    expect(rows.get(child.stdout.trim())).toBe('cancelled')
  }
})
