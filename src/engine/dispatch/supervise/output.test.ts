import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { OutputLog, outputLimit, readOutput } from './output.ts'

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'orangery-output-'))
})
afterEach(() => rm(dir, { recursive: true }))

async function collect(stream: AsyncIterable<{ data: string }>): Promise<string> {
  let text = ''
  for await (const item of stream) text += Buffer.from(item.data, 'base64').toString()
  return text
}

test('output comes back byte for byte from any offset', async () => {
  const path = join(dir, 'output.log')
  {
    await using log = await OutputLog.create(path)
    await log.append(Buffer.from('hello '))
    await log.append(Buffer.from('world'))
  }
  const signal = AbortSignal.timeout(5_000)
  expect(await collect(readOutput(path, { from: 0, follow: true, signal, ended: () => true }))).toBe(
    'hello world',
  )
  expect(await collect(readOutput(path, { from: 6, follow: false, signal, ended: () => false }))).toBe(
    'world',
  )
  for (const [from, text] of [
    [-5, 'world'],
    [-500, 'hello world'],
  ] as const) {
    expect(await collect(readOutput(path, { from, follow: false, signal, ended: () => false }))).toBe(text)
  }
})

test('a follower sees what is written after it began to read, and ends with the dispatch', async () => {
  const path = join(dir, 'output.log')
  await using log = await OutputLog.create(path)
  let ended = false
  const reading = collect(
    readOutput(path, { from: 0, follow: true, signal: AbortSignal.timeout(5_000), ended: () => ended }),
  )
  await log.append(Buffer.from('late'))
  await new Promise((resolve) => setTimeout(resolve, 30))
  await log.append(Buffer.from('r'))
  ended = true
  expect(await reading).toBe('later')
})

test('a flood is counted but does not fill the disk', async () => {
  const path = join(dir, 'output.log')
  {
    await using log = await OutputLog.create(path)
    const chunk = Buffer.alloc(16 * 1024 * 1024)
    for (let written = 0; written < outputLimit + chunk.length; written += chunk.length)
      await log.append(chunk)
    expect(log.truncated).toBe(true)
    expect(log.seen).toBeGreaterThan(outputLimit)
  }
  expect((await readFile(path)).length).toBe(outputLimit)
})
