import { expect, test } from 'vitest'
import type { Client } from '../../shared/api.ts'
import { followOutput } from './follow.ts'

const chunk = 64 * 1024

/** A log that is already long when one comes, and grows no more. */
function logOf(size: number) {
  const opened: number[] = []
  const client = {
    open: async function* (_name: string, { from = 0 }: { from?: number }) {
      opened.push(from)
      let at = from < 0 ? Math.max(0, size + from) : from
      while (at < size) {
        const length = Math.min(chunk, size - at)
        yield { offset: at, data: Buffer.alloc(length, 'x').toString('base64') }
        at += length
      }
    },
  } as unknown as Client
  return { client, opened }
}

async function read(client: Client, now: () => number) {
  let shown = 0
  const marks: string[] = []
  for await (const text of followOutput(client, 'id', new AbortController().signal, now)) {
    if (text.includes('left out')) marks.push(text)
    else shown += text.length
  }
  return { shown, marks }
}

test('a short log is shown whole', async () => {
  const { client } = logOf(100_000)
  expect(await read(client, () => 0)).toEqual({ shown: 100_000, marks: [] })
})

test('of a long log the end is shown, and what was left out is said', async () => {
  const { client } = logOf(40 * 1024 * 1024)
  const { shown, marks } = await read(client, () => 0)
  expect(shown).toBe(2 * 1024 * 1024)
  expect(marks.join()).toContain('38.0 MB left out')
})

test('a flood is followed at its end', async () => {
  let size = 1024 * 1024
  let opened = 0
  const client = {
    open: async function* (_name: string, { from = 0 }: { from?: number }) {
      opened++
      let at = Math.max(0, size + from)
      // It grows as fast as it is read, for a while.
      while (at < size) {
        yield { offset: at, data: Buffer.alloc(chunk, 'x').toString('base64') }
        at += chunk
        if (size < 14 * 1024 * 1024) size += 4 * chunk
      }
    },
  } as unknown as Client
  const { shown, marks } = await read(client, () => 0)
  expect(opened).toBeGreaterThan(1)
  expect(marks.length).toBeGreaterThan(0)
  expect(shown).toBeLessThan(size)
})
