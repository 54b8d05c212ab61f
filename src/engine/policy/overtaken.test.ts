import { afterAll, beforeAll, expect, test } from 'vitest'
import { Theatre, wish } from './testing.ts'

let theatre: Theatre
beforeAll(async () => {
  theatre = await Theatre.open()
})
afterAll(() => theatre[Symbol.asyncDispose]())

test('what was asked before a narrowing that a yes would undo is closed with it, and who waits asks again', async () => {
  const { boundaries, id } = await theatre.stage('readwrite')
  const asked = await boundaries.request(id, wish)
  const other = await boundaries.request(id, { ...wish, to: 'readonly', hosts: ['host-only.test'] })
  const waiting = boundaries.waitFor(id, asked.id)
  await boundaries.narrow(id, { to: 'readonly', by: 'person', why: '', way: 'narrowed' })
  expect(await waiting).toMatchObject({
    status: 'closed',
    answer: { message: expect.stringContaining('ask again') },
  })
  const yes = { by: 'person', message: '', scope: 'once' as const }
  await expect(boundaries.approve(id, { ...yes, requests: [asked.id] })).rejects.toMatchObject({
    code: 'boundary.answered',
    kind: 'busy',
  })
  await boundaries.approve(id, { ...yes, requests: null })
  expect(boundaries.show(id)).toMatchObject({ level: 'readonly', hosts: other.hosts })
  // Asked again it is a new question, to which a yes is one from here.
  const again = await boundaries.request(id, wish)
  expect(again).toMatchObject({ status: 'open' })
  expect(again.id).not.toBe(asked.id)
  await boundaries.approve(id, { ...yes, requests: [again.id] })
  expect(boundaries.show(id).level).toBe('network')
})

test('what was asked before a host was taken back, and would bring it back among others, is closed with it', async () => {
  const { boundaries, id } = await theatre.stage('network')
  const ask = (host: string) => boundaries.request(id, { ...wish, hosts: [host] })
  const [wide, same, other] = [await ask('*.test'), await ask('a.test:443'), await ask('b.example')]
  await boundaries.narrow(id, { hosts: ['a.test'], by: 'person', why: '', way: 'narrowed' })
  const statusOf = (wanted: { id: string }) =>
    boundaries.show(id).requests.find((request) => request.id === wanted.id)
  expect(statusOf(wide)).toMatchObject({
    status: 'closed',
    answer: { message: 'a.test was taken back meanwhile: ask again for what is still needed' },
  })
  // A yes to the host itself names what it brings back.
  for (const left of [same, other]) expect(statusOf(left)).toMatchObject({ status: 'open' })
})

test('a narrowing that fails leaves open what was asked before it', async () => {
  const { boundaries, id, failNext } = await theatre.stage('readwrite')
  await boundaries.request(id, wish)
  failNext('before')
  const narrowing = { to: 'readonly', by: 'person', why: '', way: 'narrowed' } as const
  await expect(boundaries.narrow(id, narrowing)).rejects.toThrow('EBUSY')
  expect(boundaries.show(id)).toMatchObject({
    level: 'readwrite',
    requests: [{ status: 'open', answer: null }],
  })
})

test('a yes that would open more than its giver was shown is refused (escape: stale-yes)', async () => {
  const { boundaries, id } = await theatre.stage('readonly')
  const { id: request } = await boundaries.request(id, wish)
  const yes = { requests: [request], by: 'person', message: '', scope: 'once' as const }
  for (const shown of ['readwrite', 'full'] as const) {
    await expect(boundaries.approve(id, { ...yes, shown })).rejects.toMatchObject({
      code: 'boundary.stale_yes',
      kind: 'busy',
    })
  }
  expect(boundaries.show(id)).toMatchObject({ level: 'readonly', requests: [{ status: 'open' }] })
  // The control: who was shown that it gives files, too.
  await boundaries.approve(id, { ...yes, shown: 'readonly' })
  expect(boundaries.show(id).level).toBe('network')
})

test('a yes that opens no more than its giver was shown counts, wherever it is by now', async () => {
  const { boundaries, id } = await theatre.stage('readwrite')
  const hostOnly = await boundaries.request(id, { ...wish, to: 'readonly' })
  const yes = { requests: [hostOnly.id], by: 'person', message: '', scope: 'once' as const }
  await boundaries.approve(id, { ...yes, shown: 'full' })
  expect(boundaries.show(id)).toMatchObject({ level: 'readwrite', hosts: wish.hosts })
})
