import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { parseOutputs } from './rules/policy.ts'
import { readAll, readSome, useGround } from './testing/ground.ts'

const { ask, broker, echo, listen, open, tunnel } = useGround()

test('narrowing cuts the tunnels that are no longer allowed and leaves the others', async () => {
  const upstream = await echo()
  const pin = `127.0.0.1:${upstream.port}`
  const { path, broker: started, decisions } = await broker({ pins: { 'a.test': pin, 'b.test': pin } })
  const [kept, cut] = [await tunnel(path, 'a.test:443'), await tunnel(path, 'b.test:443')]
  for (const socket of [kept, cut]) {
    socket.write('\0')
    await readSome(socket, (text) => text.length > 0)
  }
  started.setPolicy(parseOutputs({ pins: { 'a.test': pin } }))
  await readAll(cut)
  kept.write('still')
  expect(await readSome(kept, (text) => text.length >= 5)).toBe('still')
  expect(decisions.at(-1)).toMatchObject({ host: 'b.test', allowed: false })
  const again = await ask(path, 'proxy', 'CONNECT b.test:443 HTTP/1.1\r\nHost: b.test\r\n\r\n')
  expect(again).toContain('403 Orangery')
})

test('a host that is taken back loses its open tunnels, and the others keep theirs, also where every host is open', async () => {
  const upstream = await echo()
  const pin = `127.0.0.1:${upstream.port}`
  const outputs = { mode: 'open', pins: { 'a.test': pin, 'b.test': pin } } as const
  const { path, broker: started, decisions } = await broker(outputs)
  const [kept, cut] = [await tunnel(path, 'a.test:443'), await tunnel(path, 'b.test:443')]
  for (const socket of [kept, cut]) {
    socket.write('\0')
    await readSome(socket, (text) => text.length > 0)
  }
  started.setPolicy(parseOutputs({ ...outputs, taken: ['b.test'] }))
  await readAll(cut)
  kept.write('still')
  expect(await readSome(kept, (text) => text.length >= 5)).toBe('still')
  expect(decisions.at(-1)).toMatchObject({ host: 'b.test', allowed: false, why: 'a person took it back' })
  started.setPolicy(parseOutputs({ ...outputs, taken: ['b.test'], returned: ['b.test:443'] }))
  await tunnel(path, 'b.test:443')
})

test('narrowing cuts an answer that is still being sent', async () => {
  const upstream = await listen((socket) => {
    socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbeginning'))
  })
  const { path, broker: started } = await broker({ pins: { 'a.test': `127.0.0.1:${upstream.port}` } })
  const socket = await open(path, 'proxy')
  socket.write('GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n')
  await readSome(socket, (text) => text.includes('beginning'))
  started.setPolicy(parseOutputs({}))
  await readAll(socket)
  await expect
    .poll(() => [...upstream.sockets].every(({ destroyed, readableEnded }) => destroyed || readableEnded))
    .toBe(true)
})

test('a policy that narrows while a name is being resolved refuses that connection', async () => {
  const oracle = await listen()
  const waiting = Promise.withResolvers<string[]>()
  const { path, broker: started } = await broker(
    { pins: { 'a.test': '127.0.0.0/8' } },
    { resolver: () => waiting.promise },
  )
  const answer = ask(path, 'proxy', `CONNECT a.test:${oracle.port} HTTP/1.1\r\nHost: a\r\n\r\n`)
  await new Promise((done) => setTimeout(done, 30))
  started.setPolicy(parseOutputs({}))
  waiting.resolve(['127.0.0.1'])
  expect(await answer).toContain('403 Orangery')
  expect(oracle.seen).toEqual([])
})

test('widening counts for the next connection', async () => {
  const upstream = await echo()
  const { path, broker: started } = await broker({})
  expect(await ask(path, 'proxy', 'CONNECT a.test:443 HTTP/1.1\r\nHost: a\r\n\r\n')).toContain(
    'outputs are none',
  )
  started.setPolicy(parseOutputs({ pins: { 'a.test': `127.0.0.1:${upstream.port}` } }))
  await tunnel(path, 'a.test:443')
})

test('connections, bytes and time are capped', async () => {
  const upstream = await echo()
  const outputs = { pins: { 'a.test': `127.0.0.1:${upstream.port}` } }
  const { path } = await broker(outputs, { caps: { connections: 2, bytes: 1_000_000, idleMs: 400 } })
  const first = await tunnel(path, 'a.test:443')
  const second = await tunnel(path, 'a.test:443')
  const third = await ask(path, 'proxy', 'CONNECT a.test:443 HTTP/1.1\r\nHost: a\r\n\r\n')
  expect(third).toContain('more than 2 connections')
  const flood = setInterval(() => first.write(Buffer.alloc(10_000)), 2)
  await Promise.all([readAll(first), readAll(second)])
  clearInterval(flood)
  const after = await ask(path, 'proxy', 'CONNECT a.test:443 HTTP/1.1\r\nHost: a\r\n\r\n')
  expect(after).toContain('more than 1000000 bytes')
})

test('of connections at one time there are no more than may be: connections that still wait for their name count too', async () => {
  const upstream = await echo()
  const name = Promise.withResolvers<string[]>()
  const { path } = await broker(
    { pins: { 'slow.test': '127.0.0.0/8' } },
    { caps: { connections: 3 }, resolver: () => name.promise },
  )
  const asked = `CONNECT slow.test:${upstream.port} HTTP/1.1\r\nHost: a\r\n\r\n`
  const waiting = await Promise.all(Array.from({ length: 5 }, () => open(path, 'proxy')))
  const answers = waiting.map((socket) => {
    socket.write(asked)
    return readSome(socket, (text) => text.includes('\r\n\r\n'))
  })
  await Promise.all([answers[3], answers[4]])
  name.resolve(['127.0.0.1'])
  const opened = (await Promise.all(answers)).filter((text) => text.startsWith('HTTP/1.1 200'))
  expect(opened).toHaveLength(3)
  await expect.poll(() => upstream.connections).toBe(3)
})

test('an allowed host that did not answer, or has no address, is on record with the number of tries', async () => {
  const resolver = () => Promise.reject(Object.assign(new Error('unknown'), { code: 'ENOTFOUND' }))
  const { path, broker: started } = await broker(
    { allow: ['nowhere.test'], pins: { 'closed.test': '127.0.0.1:1' } },
    { resolver },
  )
  for (const host of ['closed.test', 'closed.test', 'nowhere.test'])
    await ask(path, 'proxy', `CONNECT ${host}:443 HTTP/1.1\r\nHost: a\r\n\r\n`)
  expect(started.usage()).toEqual({
    allowed: [
      { host: 'closed.test', connections: 0, bytes: 0, unreachable: 2 },
      { host: 'nowhere.test', connections: 0, bytes: 0, unreachable: 1 },
    ],
    denied: [],
  })
})

test('a tunnel of which one side has ended, and whose other side never does, is given up soon', async () => {
  const silent = await listen(() => {})
  const outputs = { pins: { 'a.test': `127.0.0.1:${silent.port}` } }
  const { path, decisions } = await broker(outputs, { caps: { halfClosedMs: 50 } })
  const kept = await tunnel(path, 'a.test:443')
  const left = await tunnel(path, 'a.test:443')
  left.end('the last word')
  await readAll(left)
  expect(decisions.at(-1)).toMatchObject({ allowed: false, why: 'the connection was idle too long' })
  // The control: one that is whole stays.
  expect(kept.destroyed || kept.readableEnded).toBe(false)
  kept.destroy()
})

test('a client that says nothing, or never finishes, is dropped', async () => {
  const { path } = await broker({}, { caps: { handshakeMs: 50 } })
  for (const [line, bytes] of [
    ['', ''],
    ['proxy', ''],
    ['proxy', 'CONNECT a.test:'],
    ['proxy', '\x05\x05'],
  ] as const) {
    const socket = connect({ path })
    socket.on('error', () => {})
    if (line !== '') socket.write(`${line}\n${bytes}`)
    socket.resume()
    await once(socket, 'close')
  }
})

test('a host that data went to is on record by name: beyond a thousand a new one is refused, and what was refused before takes no place', async () => {
  const upstream = await echo()
  const {
    path,
    broker: started,
    decisions,
  } = await broker(
    { pins: { '*.test': '127.0.0.0/8', 'late.other': '127.0.0.0/8' } },
    { resolver: async (host) => [host.startsWith('bad') ? '10.0.0.1' : '127.0.0.1'] },
  )
  const reach = (host: string) =>
    ask(path, 'proxy', `CONNECT ${host}:${upstream.port} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
  const open = async (host: string) => (await tunnel(path, `${host}:${upstream.port}`)).destroy()
  for (let turn = 0; turn < 1100; turn++) await reach(`h${turn}.denied`)
  await open('first.test')
  for (let turn = 0; turn < 999; turn++) await open(`h${turn}.test`)
  expect(await reach('late.other')).toContain('more than 1000 hosts in all')
  expect(decisions.at(-1)).toMatchObject({ allowed: false })
  await open('first.test')
  const { allowed } = started.usage()
  expect(allowed).toHaveLength(1000)
  expect(allowed[0]).toMatchObject({ host: 'first.test', connections: 2 })
})

test('a name that was resolved and then refused for where it leads is on record by name, whatever was refused before', async () => {
  const { path, broker: started } = await broker({ mode: 'open' }, { resolver: async () => ['10.0.0.1'] })
  for (let turn = 0; turn < 1100; turn++)
    await ask(path, 'proxy', `CONNECT 10.1.${turn >> 8}.${turn & 255}:80 HTTP/1.1\r\n\r\n`)
  await ask(path, 'proxy', 'CONNECT secret.example:443 HTTP/1.1\r\nHost: a\r\n\r\n')
  expect(started.usage().denied.at(-1)).toMatchObject({ host: 'secret.example', connections: 1 })
  expect(started.usage().allowed).toEqual([])
})

test('the sum of refusals of a host gives the last reason, which is the one that holds', async () => {
  const { path, broker: started } = await broker({})
  const again = () => ask(path, 'proxy', 'CONNECT a.test:443 HTTP/1.1\r\nHost: a\r\n\r\n')
  await again()
  started.setPolicy(parseOutputs({ allow: ['a.test'], taken: ['a.test'] }))
  await again()
  const denied = [{ host: 'a.test', connections: 2, why: 'a person took it back' }]
  expect(started.usage()).toEqual({ allowed: [], denied })
})
