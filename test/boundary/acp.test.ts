import { join, resolve } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import type { BoundaryRequest } from '../../src/shared/escalation.ts'
import type { EventBody } from '../../src/shared/events.ts'
import { waitUntil, type Bench } from '../dispatch/harness.ts'
import type { Doing } from './acpAgent.ts'
import { benchWithCard } from './scripted.ts'

let bench: Bench
const root = resolve(import.meta.dirname, '..', '..')
const card = {
  id: 'scripted',
  name: 'Scripted',
  command: [process.execPath, join(root, 'test', 'boundary', 'acpAgent.ts')],
  protocol: 'acp',
  sandboxRequirements: { read: [root] },
}

const current = benchWithCard(card)
beforeEach(() => {
  bench = current()
})

const spawn = (doings: readonly Doing[], spec: object = {}) =>
  bench.spawn(JSON.stringify(doings), { agent: 'scripted', sandbox_spec: JSON.stringify(spec) })

async function asked(): Promise<BoundaryRequest> {
  let open: BoundaryRequest | undefined
  await waitUntil(
    'the agent asks',
    async () => {
      open = (await bench.client.call('boundary.inbox', {}))[0]
      return open !== undefined
    },
    60_000,
  )
  return open!
}

test('what an agent asks leave for over its protocol is answered by its boundary, by a person, and with his words', async () => {
  const id = await spawn([{ edit: 'one.txt' }, { fetch: 'https://docs.test/page' }, { edit: 'two.txt' }], {
    boundary: 'readonly',
  })
  const first = await asked()
  expect(first).toMatchObject({
    dispatch: id,
    to: 'readwrite',
    source: 'agent',
    by: 'scripted',
    why: 'Edit one.txt',
  })
  await bench.client.call('boundary.deny', { id, request: first.id, message: 'plan first' })

  await waitUntil('it asks for a host', async () => (await asked()).hosts.length > 0, 60_000)
  const second = await asked()
  expect(second).toMatchObject({ to: 'readonly', hosts: ['docs.test:443'], source: 'agent' })
  // A person widens it meanwhile: the second edit is within the boundary, and asks nobody.
  const mine = await bench.client.call('boundary.request', { id, to: 'readwrite', reason: 'go on' })
  await bench.client.call('boundary.approve', { id, request: mine.id })
  await bench.client.call('boundary.approve', { id, request: second.id })

  const dispatch = await bench.ended(id)
  expect(dispatch).toMatchObject({ status: 'completed', exit_code: 0, error: null })
  const { requests } = await bench.client.call('boundary.show', { id })
  expect(requests.map(({ source, status }) => `${source} ${status}`)).toEqual([
    'agent denied',
    'agent approved',
    'user approved',
  ])
  expect(dispatch.sandbox_effective).toMatchObject({
    tools_used: ['edit', 'fetch'],
    commands_used: 3,
    boundary_history: [{ to: 'readonly' }, { to: 'readwrite' }, { to: 'readwrite' }],
  })
  const events: EventBody[] = []
  for await (const { event } of bench.client.open('dispatch.events', { id, follow: false }))
    events.push(event)
  expect(events).toContainEqual(expect.objectContaining({ type: 'AgentMessage', text: 'That was all.' }))
  // On disk, not by its word: the denied edit is not there, and what it was told is.
  const { files } = await bench.client.call('changeset.get', { id })
  expect(files.map(({ path }) => path).toSorted()).toEqual(['told.json', 'two.txt'])
  const { text } = await bench.client.call('changeset.diff', { id, path: 'told.json' })
  expect(text).toContain(String.raw`It was denied: plan first`)
  expect(text).toContain('"chosen":["no","yes","yes"]')
  expect(text).toContain('/run/orangery/door/bin/orangery-ask')
})

test.each(['readwrite', 'full'] as const)(
  'an agent at %s that asks leave over its protocol for an address nobody can open is told so at once, and its own loopback asks nobody',
  async (boundary) => {
    const own = [
      'http://127.0.0.1:3000/',
      'http://localhost:3000/',
      'http://[::1]:3000/',
      'http://LOCALHOST./',
      'http://2130706433/',
    ]
    const closed = ['http://169.254.169.254/', 'http://192.168.1.1:80/', 'http://[::ffff:169.254.169.254]/']
    const id = await spawn(
      [...own, ...closed].map((fetch) => ({ fetch })),
      { boundary },
    )
    expect(await bench.ended(id)).toMatchObject({ status: 'completed', exit_code: 0 })
    const { requests } = await bench.client.call('boundary.show', { id })
    expect(requests).toEqual([])
    const { text } = await bench.client.call('changeset.diff', { id, path: 'told.json' })
    expect(text).toContain('"chosen":["yes","yes","yes","yes","yes","no","no","no"]')
    expect(text).toContain('169.254.169.254:80 cannot be asked for: ')
  },
)

test('a run over a protocol has failed where the agent leaves before its work is done', async () => {
  const dispatch = await bench.ended(await spawn([{ edit: 'kept.txt' }, { leave: 0 }]))
  expect(dispatch).toMatchObject({
    status: 'failed',
    error: 'acp: the agent ended before its work was done',
    changeset: { state: 'review', files: 1 },
  })
})
