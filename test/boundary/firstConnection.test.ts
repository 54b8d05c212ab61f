import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createEngine, type Engine } from '../../src/engine/index.ts'
import { proxyPort } from '../../src/engine/base/sandbox.ts'
import { processesWith, waitUntil } from '../dispatch/harness.ts'
import { base, engine, project, useGround } from './ground.ts'

useGround()

const times = 4
/** If not, it is one like those above. */
const standsWithinMs = 500
// Nothing is quicker: the shell itself connects.
const connects = `(exec 3<>/dev/tcp/127.0.0.1/${proxyPort}) && echo met`

async function met(host: Engine): Promise<string> {
  const command: [string, ...string[]] = ['bash', '-c', connects]
  const { id } = await host.client.call('dispatch.spawn', { command, roots: [project] })
  let text = ''
  for await (const { data } of host.client.open('dispatch.output', { id, from: 0, follow: true }))
    text += Buffer.from(data, 'base64').toString()
  return text.trim()
}

test('what a spawned command connects to first listens already, also where nothing gets out', async () => {
  for (let time = 0; time < times; time++) expect(await met(engine)).toBe('met')
})

test('so it does in a sandbox that stood before its dispatch', async () => {
  const dataDir = join(base, 'warm')
  {
    await using warm = await createEngine({ dataDir, host: 'browser' })
    for (let time = 0; time < times; time++) {
      const isHeld = async () =>
        (await processesWith(dataDir)).some((line) => line.includes('orangery-holder'))
      await waitUntil('a spare stands', isHeld, 60_000)
      await sleep(standsWithinMs)
      expect(await met(warm)).toBe('met')
    }
  }
  await waitUntil('its processes are gone', async () => (await processesWith(dataDir)).length === 0)
})
