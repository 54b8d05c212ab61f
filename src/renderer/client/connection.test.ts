import { expect, test, vi } from 'vitest'
import type { Handlers } from '../../shared/api.ts'
import { channelPair, serveChannel, type Channel } from '../../shared/wire/index.ts'
import { Connection } from './connection.ts'

const handlers = { 'dispatch.list': async () => [] } as unknown as Handlers

function hostWith(ends: Channel[]) {
  return async () => {
    const [near, far] = channelPair()
    serveChannel(handlers, far, { by: 'test' })
    ends.push(far)
    return near
  }
}

test('a lost connection is said and made again by itself', async () => {
  const ends: Channel[] = []
  const connection = new Connection(hostWith(ends), [1])
  await vi.waitFor(() => expect(connection.state.status).toBe('open'))
  const seen: string[] = []
  connection.subscribe(() => seen.push(connection.state.status))
  ends[0]!.close()
  await vi.waitFor(() => expect(seen).toEqual(['lost', 'open']))
  const state = connection.state
  if (state.status !== 'open') throw new Error('not open')
  expect(await state.client.call('dispatch.list', {})).toEqual([])
})

test('a host that refuses is tried again until it answers', async () => {
  let refusals = 3
  const ends: Channel[] = []
  const open = hostWith(ends)
  const connection = new Connection(async () => {
    if (refusals-- > 0) throw new Error('refused')
    return open()
  }, [1])
  await vi.waitFor(() => expect(connection.state.status).toBe('open'))
  expect(refusals).toBe(-1)
})
