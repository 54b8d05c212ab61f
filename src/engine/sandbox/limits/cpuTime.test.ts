import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { makeGround, runIn, startOn, type Ground } from '../fixture.ts'
import { detectHost } from '../host/host.ts'
import { parseUse } from '../narrow/processes.ts'

const spin = 'i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done'
/** The kernel tells both in steps of 10 ms, of user and of system time. */
const stepsMs = 40
const waitFor = (name: string) => `until [ -e "$HOME/${name}" ]; do sleep 0.01; done`

// At level 0 the home is the user's own.
const at = (level: 0 | 1, { home }: Ground) => ({ level, env: level === 0 ? { HOME: home } : {} })

/** What processes inside left of their own /proc/PID/stat. */
async function toldBy(ground: Ground): Promise<number> {
  const names = (await readdir(ground.home)).filter((name) => name.startsWith('stat-'))
  const lines = await Promise.all(names.map((name) => readFile(join(ground.home, name), 'utf8')))
  return lines.reduce((sum, line) => sum + parseUse(line).ownMs, 0)
}

/** Lets a script run until it says that it is ready. */
async function readied(ground: Ground, script: string, level: 0 | 1) {
  const request = ground.request(['sh', '-c', script], at(level, ground))
  const started = await startOn(ground, request, await detectHost(ground.dataDir))
  started.sandbox.release()
  await ground.waitForHome('ready')
  return started
}

describe.each([0, 1] as const)('at level %i', (level) => {
  test('what still runs when the agent ends is counted', async () => {
    await using ground = await makeGround()
    const host = await detectHost(ground.dataDir)
    // Shorter than the time between two looks: only who looks at the very end has it all.
    const script = `(while :; do :; done) & sleep 1.2; cat /proc/$!/stat >"$HOME/stat-1"`
    const { resources } = await runIn(ground, host, script, at(level, ground))
    const told = await toldBy(ground)
    expect(told).toBeGreaterThan(100)
    expect(resources.cpu_ms).toBeGreaterThanOrEqual(told - stepsMs)
    expect(resources.cpu_ms).toBeLessThan(resources.wall_ms * 2)
  })

  test('what was started and left to itself, and ended before, is counted, be the agent killed or not', async () => {
    for (const isKilled of [false, true]) {
      await using ground = await makeGround()
      const orphan = `${spin}; cat /proc/$$/stat >"$HOME/stat-$$"; echo $$ >"$HOME/pid"; mv "$HOME/pid" "$HOME/ended"`
      // One that has just died and nobody has waited for is neither here nor there.
      const isOver = `${waitFor('ended')}; while [ -e "/proc/$(cat "$HOME/ended")" ]; do sleep 0.01; done`
      const script = `(sh -c '${orphan}' &); ${isOver}; : >"$HOME/ready"; ${isKilled ? 'sleep 60' : ':'}`
      const { sandbox, finish } = await readied(ground, script, level)
      if (isKilled) await sandbox.kill()
      const { resources } = await finish()
      const told = await toldBy(ground)
      expect(told).toBeGreaterThan(80)
      expect(resources.cpu_ms).toBeGreaterThanOrEqual(told - stepsMs)
    }
  })

  test('a killed agent is counted to the last', async () => {
    await using ground = await makeGround()
    const script = `${spin}; ${spin}; cat /proc/$$/stat >"$HOME/stat-1"; : >"$HOME/ready"; ${spin}; sleep 60`
    const { sandbox, finish } = await readied(ground, script, level)
    await sandbox.kill()
    const { resources } = await finish()
    expect(resources.cpu_ms).toBeGreaterThanOrEqual((await toldBy(ground)) - stepsMs)
  })
})

test('many processes that ran for a moment each are counted, as a fork bomb that a time-out ends', async () => {
  await using ground = await makeGround()
  const host = await detectHost(ground.dataDir)
  const limits = { pids: 60, timeout_s: 1.5 }
  const bomb = `sleep 30 & bash -c 'bomb() { bomb | bomb & }; bomb' & wait %1`
  const { limits: reached, resources } = await runIn(ground, host, bomb, { limits })
  expect(reached).toContain('timeout')
  // A fork takes its while: some 50 of them at least as long as one step.
  expect(resources.cpu_ms).toBeGreaterThanOrEqual(10)
  await using quietGround = await makeGround()
  const quiet = await runIn(quietGround, host, 'sleep 30', { limits })
  expect(resources.cpu_ms).toBeGreaterThan(quiet.resources.cpu_ms)
})
