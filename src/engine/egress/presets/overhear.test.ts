import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { privateFolder } from './overhear.ts'

let place: string
beforeEach(async () => {
  // Not in /tmp, where others could put something above it.
  place = await mkdtemp(join(homedir(), '.orangery-test-'))
})
afterEach(() => rm(place, { recursive: true, force: true }))

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  'a preset that is asked for when %s ends us leaves no folder behind',
  async (signal) => {
    const module = JSON.stringify(join(import.meta.dirname, 'overhear.ts'))
    const script = `const { overhear } = await import(${module})
      await overhear({ prepare: () => new Promise((resolve) => setTimeout(resolve, 20000)), command: () => ['true'], env: () => ({}) }, [${JSON.stringify(place)}])`
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'ignore' })
    const ended = once(child, 'exit')
    await expect.poll(() => readdir(place), { timeout: 10_000 }).toHaveLength(1)
    child.kill(signal)
    expect(await ended).toEqual([null, signal])
    expect(await readdir(place)).toEqual([])
  },
)

test('what a killed one left is gone with the next, and neither what is in use nor what is another’s', async () => {
  const [left, filled, used, other] = [
    '.orangery-preset-AbCd12',
    '.orangery-preset-filled',
    '.orangery-preset-inUse0',
    '.orangery-preset-notes',
  ] as const
  for (const name of [left, filled, used, other]) await mkdir(join(place, name))
  await writeFile(join(place, filled, 'Cargo.toml'), '')
  const longAgo = new Date(Date.now() - 3_600_000)
  for (const name of [left, filled, other]) await utimes(join(place, name), longAgo, longAgo)
  const folder = await privateFolder([place])
  const names = (await readdir(place)).map((name) => join(place, name)).toSorted()
  expect(names).toEqual([folder, join(place, used), join(place, other)].toSorted())
})
