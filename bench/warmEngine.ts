import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createEngine, type Engine } from '../src/engine/index.ts'
import type { SpawnInput } from '../src/shared/api.ts'
import { isTerminal } from '../src/shared/dispatch.ts'
import { nowMs, tellTime } from './firstInstruction.ts'
import type { Contender } from './row.ts'
import { benchFolder } from './trees.ts'

/** An engine as the desktop app has it: open, with a supervisor waiting. */
export async function warmEngine(scope: AsyncDisposableStack): Promise<Engine> {
  const dataDir = await mkdtemp(join(await benchFolder(), 'data-'))
  const engine = scope.use(await createEngine({ dataDir, host: 'browser' }))
  await spareIsReady()
  return engine
}

/** The next spare supervisor is started half a second after the last one was used. */
const spareIsReady = () => sleep(2500)

async function untilEnded(engine: Engine, id: string): Promise<void> {
  while (!isTerminal((await engine.client.call('dispatch.get', { id })).status)) await sleep(20)
}

async function toldTime(engine: Engine, id: string): Promise<number> {
  let text = ''
  for await (const { data } of engine.client.open('dispatch.output', { id, from: 0, follow: true })) {
    text += Buffer.from(data, 'base64').toString()
  }
  return Number(text.trim()) / 1e6
}

/** From the call into a warm engine until the agent's first instruction told the time. */
export function warmSpawn(
  engine: Engine,
  root: string,
  name: string,
  options: Partial<SpawnInput> = {},
): Contender {
  return {
    name,
    async sample() {
      const started = nowMs()
      const { id } = await engine.client.call('dispatch.spawn', {
        command: [...tellTime],
        roots: [root],
        ...options,
      })
      const told = await toldTime(engine, id)
      await untilEnded(engine, id)
      return told - started
    },
    reset: spareIsReady,
  }
}
