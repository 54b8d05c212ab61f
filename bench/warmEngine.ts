import { mkdtemp, readdir, readFile } from 'node:fs/promises'
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
  await spareIsReady(dataDir)
  return engine
}

/** Processor time of our youngest supervisor, or null where none waits. */
async function spareTicks(): Promise<string | null> {
  const children = await readFile(`/proc/self/task/${process.pid}/children`, 'utf8')
  for (const pid of children.trim().split(' ').reverse()) {
    const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    if (!command.includes('supervisor')) continue
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return `${pid} ${fields[11]} ${fields[12]}`
  }
  return null
}

/**
 * A host starts the next supervisor half a second after the last one was used; on a busy machine it takes a
 * while to open everything. It waits when it has a door ready and has stopped using the processor.
 */
async function spareIsReady(dataDir: string, used: string | null = null): Promise<void> {
  let before = await spareTicks()
  for (let quiet = 0, tries = 0; quiet < 3 && tries < 400; tries++) {
    await sleep(50)
    const now = await spareTicks()
    const pid = pidOf(now)
    const isUp = pid !== null && pid !== used && (await hasDoor(dataDir, pid))
    quiet = isUp && now === before ? quiet + 1 : 0
    before = now
  }
}

const pidOf = (ticks: string | null) => ticks?.split(' ')[0] ?? null

async function hasDoor(dataDir: string, pid: string): Promise<boolean> {
  const names = await readdir(join(dataDir, 'spares')).catch((): string[] => [])
  return names.some((name) => name.startsWith(`scratch-${pid}.`))
}

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
  let used: string | null = null
  return {
    name,
    async sample() {
      used = pidOf(await spareTicks())
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
    reset: () => spareIsReady(engine.dataDir, used),
  }
}
