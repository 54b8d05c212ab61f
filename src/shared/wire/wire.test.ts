import { expect, test } from 'vitest'
import type { Handlers } from '../api.ts'
import { OrangeryError } from '../errors.ts'
import { channelPair, connectClient, serveChannel } from './index.ts'

const id = '20260128120500-b7c9'

function connect(handlers: Partial<Handlers>) {
  const [near, far] = channelPair()
  serveChannel(handlers as Handlers, far, { by: 'test' })
  return connectClient(near)
}

test('a call reaches its handler with defaults filled in and its answer comes back', async () => {
  const client = connect({
    'dispatch.list': async (input) => {
      expect(input.limit).toBe(100)
      return []
    },
  })
  expect(await client.call('dispatch.list', {})).toEqual([])
})

test('an error keeps its code, kind and hint across the wire', async () => {
  const client = connect({
    'dispatch.get': async () => {
      throw new OrangeryError('dispatch.not_found', 'x: not found', { kind: 'not_found', hint: 'Look.' })
    },
  })
  await expect(client.call('dispatch.get', { id: 'x' })).rejects.toMatchObject({
    code: 'dispatch.not_found',
    kind: 'not_found',
    hint: 'Look.',
    exitCode: 66,
  })
})

test('a call that is taken back tells its handler, and how it settles is what the handler says', async () => {
  const began = Promise.withResolvers<void>()
  const client = connect({
    'dispatch.list': (_input, { signal }) =>
      new Promise((_resolve, reject) => {
        signal?.addEventListener('abort', () => reject(new OrangeryError('test.heard', 'x: heard')))
        began.resolve()
      }),
  })
  const abort = new AbortController()
  const calling = client.call('dispatch.list', {}, abort.signal)
  await began.promise
  abort.abort()
  await expect(calling).rejects.toMatchObject({ code: 'test.heard' })
  await expect(client.call('dispatch.list', {}, abort.signal)).rejects.toMatchObject({
    code: 'wire.taken_back',
  })
})

test('bad input is refused before the handler sees it', async () => {
  let called = false
  const client = connect({
    'dispatch.get': async () => {
      called = true
      throw new Error('unreachable')
    },
  })
  await expect(client.call('dispatch.get', { id: 7 } as never)).rejects.toMatchObject({ kind: 'input' })
  expect(called).toBe(false)
})

test('an unexpected error shows no stack and is counted as our fault', async () => {
  const client = connect({
    'dispatch.get': async () => {
      throw new TypeError('secret detail\n    at somewhere')
    },
  })
  const error = await client.call('dispatch.get', { id }).catch((reason: unknown) => reason as OrangeryError)
  expect(error).toMatchObject({ kind: 'internal', code: 'internal.unexpected' })
  expect((error as OrangeryError).message).not.toContain('at somewhere')
})

test('a name that is inherited from Object is no procedure', async () => {
  const client = connect({})
  await expect(client.call('constructor' as never, {} as never)).rejects.toMatchObject({
    code: 'wire.unknown_name',
  })
})

test('a stream delivers every item in order and ends', async () => {
  const client = connect({
    changes: async function* () {
      for (let index = 0; index < 2_000; index++) yield { ids: [String(index)] }
    },
  })
  const seen: string[] = []
  for await (const item of client.open('changes', {})) seen.push(...item.ids)
  expect(seen).toEqual(Array.from({ length: 2_000 }, (_, index) => String(index)))
})

test('a stream whose reader stands still is not read ahead without end', async () => {
  let produced = 0
  const client = connect({
    changes: async function* (_input, signal) {
      while (!signal.aborted) {
        produced++
        yield { ids: [] }
      }
    },
  })
  const reader = client.open('changes', {})[Symbol.asyncIterator]()
  await reader.next()
  await new Promise((resolve) => setTimeout(resolve, 50))
  const standing = produced
  await new Promise((resolve) => setTimeout(resolve, 50))
  expect(produced).toBe(standing)
  await reader.return?.(undefined)
})

test('large items are sent one by one: a reader that stands still holds up a few of them', async () => {
  let produced = 0
  const large = 'x'.repeat(2 * 1024 * 1024)
  const client = connect({
    changes: async function* (_input, signal) {
      while (!signal.aborted && produced < 100) {
        produced++
        yield { ids: [large] }
      }
    },
  })
  const reader = client.open('changes', {})[Symbol.asyncIterator]()
  expect((await reader.next()).value).toEqual({ ids: [large] })
  await new Promise((resolve) => setTimeout(resolve, 20))
  expect(produced).toBeLessThan(20)
  await reader.return?.(undefined)
})

test('leaving a stream aborts its handler', async () => {
  let aborted: () => void = () => {}
  const done = new Promise<void>((resolve) => {
    aborted = resolve
  })
  const client = connect({
    changes: async function* (_input, signal) {
      signal.addEventListener('abort', aborted)
      yield { ids: ['first'] }
      await new Promise((resolve) => {
        signal.addEventListener('abort', resolve)
      })
    },
  })
  for await (const item of client.open('changes', {})) {
    expect(item.ids).toEqual(['first'])
    break
  }
  await done
})

test('a closed channel fails what was under way instead of leaving it to hang', async () => {
  const client = connect({ 'dispatch.get': () => new Promise(() => {}) })
  const call = client.call('dispatch.get', { id })
  client.close()
  await expect(call).rejects.toMatchObject({ code: 'wire.lost' })
  await expect(client.call('dispatch.list', {})).rejects.toMatchObject({ code: 'wire.lost' })
})
