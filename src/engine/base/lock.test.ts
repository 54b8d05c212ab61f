import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createRepoLock, type RepoLock } from './lock.ts'

let base: string
let lock: RepoLock
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'orangery-lock-'))
  lock = createRepoLock({ locks: join(base, 'locks') })
})
afterEach(() => rm(base, { recursive: true, force: true }))

/** Another process that takes the lock and says so. */
async function otherHolder() {
  const script = `
    import { createRepoLock } from ${JSON.stringify(join(import.meta.dirname, 'lock.ts'))}
    globalThis.held = await createRepoLock({ locks: ${JSON.stringify(join(base, 'locks'))} }).acquire('repo')
    process.stdout.write('held')
    setInterval(() => {}, 1000)
  `
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  return child
}

test('a lock held by another process is busy, says who holds it, and a kill -9 of the holder frees it', async () => {
  const child = await otherHolder()
  // The holder writes its name down a moment later, and a busy machine makes that moment long.
  const holder = join(base, 'locks', 'repo.lock.holder')
  await vi.waitFor(async () => expect(await readFile(holder, 'utf8')).toContain('pid'), { timeout: 10_000 })
  await expect(lock.acquire('repo', { timeoutMs: 60 })).rejects.toMatchObject({
    kind: 'busy',
    message: expect.stringContaining(String(child.pid)),
  })
  const waiting = lock.acquire('repo', { timeoutMs: 10_000 })
  child.kill('SIGKILL')
  await using held = await waiting
  expect(held).toBeDefined()
})

test('waiting for a lock never blocks the event loop', async () => {
  const child = await otherHolder()
  let turns = 0
  const clock = setInterval(() => (turns += 1), 5)
  await expect(lock.acquire('repo', { timeoutMs: 150 })).rejects.toMatchObject({ kind: 'busy' })
  clearInterval(clock)
  child.kill('SIGKILL')
  expect(turns).toBeGreaterThan(5)
})

test('holders in one process follow each other in order of arrival and never overlap', async () => {
  const seen: string[] = []
  await Promise.all(
    [0, 1, 2, 3].map(async (index) => {
      await using _held = await lock.acquire('repo')
      seen.push(`in ${index}`)
      await new Promise((resolve) => setTimeout(resolve, 3))
      seen.push(`out ${index}`)
    }),
  )
  expect(seen).toEqual([0, 1, 2, 3].flatMap((index) => [`in ${index}`, `out ${index}`]))
})

test('a waiter that gives up does not let the next one in early', async () => {
  const first = await lock.acquire('repo')
  await expect(lock.acquire('repo', { timeoutMs: 20 })).rejects.toMatchObject({ kind: 'busy' })
  expect(await lock.tryAcquire('repo')).toBeNull()
  await first[Symbol.asyncDispose]()
  const next = await lock.tryAcquire('repo')
  expect(next).not.toBeNull()
  await next?.[Symbol.asyncDispose]()
})

test('locks of different names do not know each other, and a name cannot lead out of the folder', async () => {
  await using _one = await lock.acquire('one')
  await using two = await lock.acquire('two', { timeoutMs: 0 })
  expect(two).toBeDefined()
  await expect(lock.acquire('../escape')).rejects.toMatchObject({ code: 'lock.bad_name' })
})

test('four processes that count under the lock lose no step, though the file comes and goes', async () => {
  const counter = join(base, 'counter')
  await writeFile(counter, '0')
  const script = `
    import { createRepoLock } from ${JSON.stringify(join(import.meta.dirname, 'lock.ts'))}
    import { readFileSync, writeFileSync } from 'node:fs'
    const lock = createRepoLock({ locks: ${JSON.stringify(join(base, 'locks'))} })
    for (let turn = 0; turn < 25; turn += 1) {
      await using held = await lock.acquire('repo', { timeoutMs: 60_000 })
      const value = Number(readFileSync(${JSON.stringify(counter)}, 'utf8'))
      await new Promise((resolve) => setImmediate(resolve))
      writeFileSync(${JSON.stringify(counter)}, String(value + 1))
    }
  `
  const children = Array.from({ length: 4 }, () =>
    spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'inherit' }),
  )
  const codes = await Promise.all(children.map(async (child) => (await once(child, 'exit'))[0] as number))
  expect(codes).toEqual([0, 0, 0, 0])
  expect(await readFile(counter, 'utf8')).toBe('100')
  expect(await readdir(join(base, 'locks'))).toEqual([])
})
