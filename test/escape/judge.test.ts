import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeGround } from '../../src/engine/sandbox/fixture.ts'
import { detectHost } from '../../src/engine/sandbox/index.ts'
import type { EscapeCase } from './case.ts'
import { judge } from './judge.ts'
import { kernel } from './cases/kernel.ts'

const stateOf = async (pid: string) =>
  /^State:\s*(\S)/m.exec(await readFile(`/proc/${pid}/status`, 'utf8').catch(() => ''))?.[1] ?? null

test('a control that stops a process on the host leaves none behind', async () => {
  // Not the folder that all share: what root leaves there an ordinary user could not use.
  await using ground = await makeGround()
  const host = await detectHost(ground.dataDir)
  const ptrace = kernel.find(({ id }) => id === 'ptrace')
  if (ptrace === undefined) throw new Error('there is no such case')
  const victims: string[] = []
  const followed: EscapeCase = {
    ...ptrace,
    stage: async (world) => {
      const stage = await ptrace.stage(world)
      return {
        ...stage,
        probe: stage.probe.replace('victim=$!', 'victim=$!; echo $victim > ~/victim'),
        escaped: async () => {
          victims.push((await readFile(join(world.ground.home, 'victim'), 'utf8')).trim())
          return stage.escaped()
        },
      }
    },
  }
  expect(await judge(followed, host)).toMatchObject({ verdict: 'BLOCKED' })
  // The first is the control's, by its number on the host.
  const [victim = ''] = victims
  expect(victim).toMatch(/^\d+$/)
  await expect.poll(() => stateOf(victim)).toBeNull()
})
