import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { isAlive, startTicks } from './processes.ts'

test('a process is alive under its own start time only', async () => {
  const ticks = await startTicks(process.pid)
  expect(ticks).toBeGreaterThan(0)
  expect(await isAlive(process.pid, ticks)).toBe(true)
  expect(await isAlive(process.pid, ticks + 1)).toBe(false)
})

test('a zombie that its parent never looks after is dead', async () => {
  // The shell becomes sleep, which never waits for the child it inherited.
  const parent = spawn('sh', ['-c', 'sleep 0.2 & echo $!; exec sleep 60'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  try {
    const [line] = (await once(parent.stdout, 'data')) as [Buffer]
    const child = Number(line.toString())
    const ticks = await startTicks(child)
    expect(await isAlive(child, ticks)).toBe(true)
    await expect.poll(() => readFile(`/proc/${child}/stat`, 'utf8'), { timeout: 10_000 }).toMatch(/\) Z /)
    expect(await isAlive(child, ticks)).toBe(false)
  } finally {
    parent.kill('SIGKILL')
  }
})
