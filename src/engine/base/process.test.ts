import { expect, test } from 'vitest'
import { run } from './process.ts'

/** What it started holds its output open, as one would that the kernel does not let end. */
const leavesOneBehind = 'echo begun; sleep 30 & echo $! >&2; wait'

test('a program is given up after its time, though something it started does not end with it', async () => {
  const began = performance.now()
  const ended = await run('sh', ['-c', leavesOneBehind], { timeoutMs: 300 })
  process.kill(Number(ended.stderr), 'SIGKILL')
  expect(performance.now() - began).toBeLessThan(15_000)
  expect(ended).toMatchObject({ code: null, signal: 'SIGKILL' })
  expect(ended.stdout.toString()).toBe('begun\n')
})

test('a program that ends in its time keeps nothing waiting for that time', async () => {
  const script = `const { run } = await import(${JSON.stringify(import.meta.dirname + '/process.ts')}); await run('true', [], { timeoutMs: 600_000 })`
  const ended = await run(process.execPath, ['--input-type=module', '-e', script], { timeoutMs: 30_000 })
  expect(ended.code).toBe(0)
})

test('who gave a program up can end while that is still there', async () => {
  const script = `const { run } = await import(${JSON.stringify(import.meta.dirname + '/process.ts')}); console.log((await run('sh', ['-c', ${JSON.stringify(leavesOneBehind)}], { timeoutMs: 300 })).stderr.toString())`
  const ended = await run(process.execPath, ['--input-type=module', '-e', script], { timeoutMs: 25_000 })
  process.kill(Number(ended.stdout), 'SIGKILL')
  expect(ended.code).toBe(0)
})

test('a program that ended in its time ended as it did, though something it started holds its output', async () => {
  const ended = await run('sh', ['-c', 'sleep 30 & echo $!; exit 3'], { timeoutMs: 300 })
  process.kill(Number(ended.stdout), 'SIGKILL')
  expect(ended).toMatchObject({ code: 3, signal: null })
})
