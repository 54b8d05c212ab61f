import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createSecure } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { connect as tlsConnect } from 'node:tls'
import { expect, test } from 'vitest'
import { makeAuthority } from '../tls/authority.ts'
import { dial } from '../dial/dial.ts'
import { outliveWrites, whenBroken } from '../dial/endings.ts'
import { readSome, useGround } from '../testing/ground.ts'

const { broker, defer, listen, open, tunnel } = useGround()

async function serve(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  defer(() => (server.close(), server.closeAllConnections()))
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

const length = { 'content-length': 5 }
const answers: readonly (readonly [what: string, answer: RequestListener])[] = [
  ['at once', (_, response) => void response.writeHead(401, length).end('nope\n')],
  [
    'after a while',
    (_, response) => void setTimeout(() => response.writeHead(401, length).end('nope\n'), 100),
  ],
  ['in chunks', (_, response) => (response.writeHead(401), response.write('nope\n'), void response.end())],
  [
    'without a word in it',
    (_, response) => void response.writeHead(401, 'nope', { 'content-length': 0 }).end(),
  ],
]

/** As programs do that look for the answer only when they have sent everything. */
async function upload(socket: Socket, head: string, size: number): Promise<string> {
  socket.write(head)
  const body = head.includes('chunked')
    ? Buffer.concat([
        Buffer.from(`${size.toString(16)}\r\n`),
        Buffer.alloc(size),
        Buffer.from('\r\n0\r\n\r\n'),
      ])
    : Buffer.alloc(size)
  await new Promise<unknown>((done) => socket.write(body, done))
  return readSome(socket, (text) => text.includes('nope'))
}

test.for(answers)(
  'a server that answers an upload %s, before it has read it, is heard, and the connection goes on where it can',
  { timeout: 30_000 },
  async ([what, answer]) => {
    const pin = await serve(createServer(answer))
    const { path } = await broker({ pins: { 'a.test': pin } })
    for (const size of [100_000, 1_000_000, 12_000_000]) {
      for (const framing of [`Content-Length: ${size}`, 'Transfer-Encoding: chunked']) {
        for (const [line, url] of [
          ['alias a.test 80', '/'],
          ['proxy', 'http://a.test/'],
        ] as const) {
          const socket = await open(path, line)
          const head = `POST ${url} HTTP/1.1\r\nHost: a.test\r\n${framing}\r\n\r\n`
          expect(await upload(socket, head, size)).toMatch(/^HTTP\/1.1 401 /)
          if (what !== 'in chunks') expect(await upload(socket, head, size)).toMatch(/^HTTP\/1.1 401 /)
          socket.destroy()
        }
      }
    }
  },
)

test('an upload is answered before it was read inside TLS that is opened for a secret too', async () => {
  const world = await makeAuthority(['api.test'])
  const server = createSecure(
    { SNICallback: (name, give) => give(null, world.contextFor(name)) },
    (_, response) => void response.writeHead(401, length).end('nope\n'),
  )
  const pins = { 'api.test': await serve(server) }
  const credential = { hosts: ['api.test'], header: 'X-Key', value: 's3cret', intercept: true }
  const authority = await makeAuthority(['api.test'])
  const { path } = await broker(
    { pins },
    { credentials: [credential], authority, authorities: [world.certificate] },
  )
  for (let turn = 0; turn < 8; turn++) {
    const socket = await tunnel(path, 'api.test:443')
    const tls = tlsConnect({ socket, servername: 'api.test', ca: authority.certificate })
    await once(tls, 'secureConnect')
    const head = 'POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 3000000\r\n\r\n'
    expect(await upload(tls, head, 3_000_000)).toMatch(/^HTTP\/1.1 401 /)
    tls.destroy()
  }
})

test('what a server said before it reset is read though writing failed, and its end counts as broken off', async () => {
  const upstream = await listen((socket) => {
    socket.pause()
    socket.write('partial', () => setTimeout(() => socket.resetAndDestroy(), 20))
  })
  const socket = await dial('127.0.0.1', upstream.port, 1000)
  socket.pause()
  const { promise: failed, resolve } = Promise.withResolvers<void>()
  outliveWrites(socket, resolve)
  socket.write('x')
  await delay(100)
  socket.write('y')
  await failed
  const broken = new Promise<void>((done) => whenBroken(socket, done))
  socket.once('end', () => socket.destroy())
  expect(await readSome(socket, (text) => text.length >= 7)).toBe('partial')
  socket.resume()
  await broken
})
