import { once } from 'node:events'
import { createServer as createWeb } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { connect as tlsConnect, createSecureContext } from 'node:tls'
import { expect, test } from 'vitest'
import { dial } from '../dial/dial.ts'
import { defaultCaps } from '../rules/caps.ts'
import { Gate } from '../gate.ts'
import { peek } from '../tls/hello.ts'
import { parseOutputs } from '../rules/policy.ts'
import { helloFor } from '../testing/clientHello.ts'
import { hello, readAll, readSome, useGround } from '../testing/ground.ts'
import { carry } from '../dial/tunnel.ts'

const { ask, broker, defer, listen, open, tunnel } = useGround()

test.each([
  ['GET http://a.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n', 'proxy', '403'],
  ['GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nHost: other.test\r\n\r\n', 'proxy', '40[03]'],
  ['GET http://a.test@other.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n', 'proxy', '403'],
  ['GET http://a.test\\@other.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n', 'proxy', '400'],
  ['GET http://a.test/ HTTP/1.1\r\n\r\n', 'proxy', '40[03]'],
  ['GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n', 'proxy', '400'],
  ['GET / HTTP/1.1\r\nHost: a.test\r\n\r\n', 'proxy', '400'],
  ['GET / HTTP/1.1\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '403'],
  ['GET http://other.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n', 'alias a.test 80', '400'],
  ['CONNECT other.test:443 HTTP/1.1\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '400'],
  [
    'POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n',
    'proxy',
    '400',
  ],
  ['\r\n\r\nGET / HTTP/1.1\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '403'],
  ['GET /\u00fc HTTP/1.1\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '40[03]'],
  ['get / HTTP/1.1\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '403'],
  ['GET\t/ HTTP/1.1\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '403'],
  ['GET  / HTTP/1.1\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '403'],
  ['GET / http/1.1\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '403'],
  ['GET / HTTP/1.1 \r\nHost: other.test\r\n\r\n', 'alias a.test 80', '403'],
  [' GET / HTTP/1.1\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '40[03]'],
  ['G_T / HTTP/1.1\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '403'],
  ['!GET! / HTTP/1.1\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '403'],
  [`${'GET'.repeat(99)} / HTTP/1.1\r\nHost: other.test\r\n\r\n`, 'alias a.test 80', '403'],
  ['GET\f/ HTTP/1.1\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '403'],
  ['GET\r/ HTTP/1.1\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '403'],
  ['GET /\x01 HTTP/1.1\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '403'],
  ['GET /\0 HTTP/1.1\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '403'],
  ['GET /\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '403'],
  ['GET\xa0/\xa0HTTP/1.1\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '40[03]'],
  ['\x1fGET / HTTP/1.1\r\nHost: other.test\r\n\r\n', 'alias a.test 80', '40[03]'],
  ['CONNECT a.test HTTP/1.1\r\nHost: a.test\r\n\r\n', 'proxy', '400'],
  ['CONNECT a.test:0 HTTP/1.1\r\nHost: a.test\r\n\r\n', 'proxy', '400'],
  ['CONNECT a.test:65536 HTTP/1.1\r\nHost: a.test\r\n\r\n', 'proxy', '400'],
  ['CONNECT [fe80::1%25eth0]:443 HTTP/1.1\r\nHost: a.test\r\n\r\n', 'proxy', '400'],
  ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'proxy', '400'],
  [`GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 'proxy', '400'],
  [
    'POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n',
    'proxy',
    '400',
  ],
  [
    'POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello',
    'proxy',
    '400',
  ],
  // HTTP/1.0 knows no chunks: what we pass on as a body would be whatever the server takes it for.
  [
    'POST http://a.test/ HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'proxy',
    '40[03]',
  ],
  ['CONNECT a.test:443@other.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n', 'proxy', '400'],
])('%j over %s is refused before anything is sent', async (request, line, status) => {
  const oracle = await listen(hello('reached'))
  const { path, decisions } = await broker({ pins: { 'a.test': `127.0.0.1:${oracle.port}` } })
  expect(await ask(path, line, request)).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  expect(oracle.seen).toEqual([])
  expect(decisions.filter(({ allowed }) => !allowed)).toHaveLength(1)
  const good = 'GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n'
  expect(await ask(path, 'proxy', good)).toContain('reached')
})

const longHead = 'headers are longer than 16384 bytes'
const oddByte = 'has a byte that HTTP does not allow there: write it percent-encoded'
const rest = 'HTTP/1.1\r\nHost: a.test\r\n'

test.each([
  [`GET http://a.test/ ${rest}X: ${'x'.repeat(20_000)}\r\n\r\n`, 'proxy', 'a.test:80', longHead],
  [`GET http://a.test:81/${'x'.repeat(20_000)} ${rest}\r\n`, 'proxy', 'a.test:81', longHead],
  [`CONNECT a.test:443 ${rest}X: ${'x'.repeat(20_000)}\r\n\r\n`, 'proxy', 'a.test:443', longHead],
  [`GET http://a.test/\u00fc ${rest}\r\n`, 'proxy', 'a.test:80', oddByte],
  [`GET http://u@A.test?\u00fc ${rest}\r\n`, 'proxy', 'a.test:80', oddByte],
  [`GET /\u00fc ${rest}\r\n`, 'alias a.test 80', 'a.test:80', oddByte],
  [`POST http://a.test/ ${rest}Content-Length: x\r\n\r\n`, 'proxy', 'a.test:80', 'Content-Length'],
  // Behind another on the same connection.
  [
    `GET http://a.test/ ${rest}\r\nGET http://b.test/\u00fc ${rest}\r\n`,
    'proxy',
    'b.test:80',
    'not in the list of allowed hosts',
  ],
  // What cannot be read is read as nobody's name.
  [`GET http://a.test\u00fc/ ${rest}\r\n`, 'proxy', '(not a host)', oddByte],
  [`GET http://\u00fca.test/ ${rest}\r\n`, 'proxy', '(not a host)', oddByte],
])(
  '%j over %s cannot be read: the host that it named and the reason are told and on record',
  async (...row) => {
    const [request, line, host, why] = row
    const oracle = await listen(hello('reached'))
    const { path, decisions } = await broker({ pins: { 'a.test': `127.0.0.1:${oracle.port}` } })
    const said = await ask(path, line, request)
    expect(said).toMatch(/HTTP\/1.1 400 Orangery/)
    expect(said).toContain(why)
    const denied = decisions.filter(({ allowed }) => !allowed)
    expect(denied.map((each) => (each.port === null ? each.host : `${each.host}:${each.port}`))).toEqual([
      host,
    ])
    expect(denied[0]?.why).toContain(why)
  },
)

test.each(['xchunked', 'identity', 'gzip, chunked'])(
  'a request with a body in the coding %s is refused before its head is sent',
  async (coding) => {
    const oracle = await listen(hello('reached'))
    const { path, decisions } = await broker({ pins: { 'a.test': `127.0.0.1:${oracle.port}` } })
    const head = `POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nTransfer-Encoding: `
    expect(await ask(path, 'proxy', `${head}${coding}\r\n\r\n0\r\n\r\n`)).toMatch(/^HTTP\/1.1 40[03] /)
    expect(oracle.seen).toEqual([])
    expect(decisions.some(({ allowed }) => allowed)).toBe(false)
    expect(await ask(path, 'proxy', `${head}chunked\r\n\r\n0\r\n\r\n`)).toContain('reached')
  },
)

test('a second request hidden behind the first never reaches the server', async () => {
  const oracle = await listen(hello('x'))
  const { path } = await broker({ pins: { 'a.test': `127.0.0.1:${oracle.port}` } })
  const hidden = 'GET /hidden HTTP/1.1\r\nHost: other.test\r\n\r\n'
  await ask(path, 'alias a.test 80', `GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n${hidden}`)
  expect(Buffer.concat(oracle.seen).toString()).toContain('GET / HTTP/1.1')
  expect(Buffer.concat(oracle.seen).toString()).not.toContain('hidden')
})

/** Writes every byte by itself. */
function inPieces(socket: Socket): Socket {
  const write = socket.write.bind(socket) as (bytes: Buffer) => boolean
  socket.setNoDelay(true)
  socket.write = ((bytes: Buffer, ...rest: unknown[]) => {
    for (const byte of bytes) write(Buffer.from([byte]))
    const done = rest.find((item) => typeof item === 'function') as (() => void) | undefined
    done?.()
    return true
  }) as typeof socket.write
  return socket
}

test('TLS for another name than the tunnel is for is cut before the server sees a byte', async () => {
  const oracle = await listen()
  const { path, decisions } = await broker({ pins: { 'a.test': `127.0.0.1:${oracle.port}` } })
  const shake = async (servername: string, split: boolean) => {
    const socket = await tunnel(path, 'a.test:443')
    const pieces = split ? inPieces(socket) : socket
    const tls = tlsConnect({ socket: pieces, servername, rejectUnauthorized: false })
    const failed = once(tls, 'error').catch(() => {})
    await Promise.race([failed, expect.poll(() => oracle.seen.length, { timeout: 2000 }).toBeGreaterThan(0)])
    tls.destroy()
  }
  await shake('other.test', false)
  await shake('other.test', true)
  expect(oracle.seen).toEqual([])
  expect(decisions.find(({ allowed }) => !allowed)?.why).toBe(
    'TLS asks for other.test in a connection to a.test:443',
  )
  await shake('a.test', true)
  expect(Buffer.concat(oracle.seen).toString('latin1')).toContain('a.test')
})

test('a name that only our own spelling makes the allowed one is another name to the server', async () => {
  const oracle = await listen(hello('reached'))
  const { path, decisions } = await broker({ pins: { 'aa.test': `127.0.0.1:${oracle.port}` } })
  // The ordinal indicator is an "a" to whoever normalises, and a byte like any other to a front end.
  const strange = Buffer.from('GET / HTTP/1.1\r\nHost: a\xaa.test\r\nConnection: close\r\n\r\n', 'latin1')
  expect(await ask(path, 'alias aa.test 80', strange)).toMatch(/^HTTP\/1.1 40[03] /)
  const said = await helloFor('ab.test')
  const at = said.indexOf('ab.test')
  const socket = await tunnel(path, 'aa.test:443')
  said[at + 1] = 0xaa
  socket.write(said)
  expect((await readAll(socket))[0]).toBe(0x15)
  expect(oracle.seen).toEqual([])
  expect(decisions.filter(({ allowed }) => !allowed)).toHaveLength(2)
  // Control: in plain letters both pass.
  const plain = 'GET / HTTP/1.1\r\nHost: AA.test\r\nConnection: close\r\n\r\n'
  expect(await ask(path, 'alias aa.test 80', plain)).toContain('reached')
  said[at + 1] = 0x61
  const second = await tunnel(path, 'aa.test:443')
  second.write(said)
  await expect.poll(() => Buffer.concat(oracle.seen).includes('aa.test')).toBe(true)
  await expect.poll(() => oracle.seen.some((bytes) => bytes[0] === 0x16)).toBe(true)
})

test('read-only outputs pass reading methods and TLS, and nothing else', async () => {
  const oracle = await listen(hello('read'))
  const { path } = await broker({ pins: { 'a.test': `127.0.0.1:${oracle.port}` }, read_only: true })
  const head = 'HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
  expect(await ask(path, 'proxy', `GET http://a.test/ ${head}`)).toContain('read')
  const before = oracle.seen.length
  expect(await ask(path, 'proxy', `POST http://a.test/ ${head}`)).toContain(
    'read-only outputs do not let POST',
  )
  expect(await ask(path, 'alias a.test 80', `DELETE / ${head}`)).toContain('403')
  expect(await ask(path, 'alias a.test 80', `post / ${head}`)).toContain('403')
  expect(await ask(path, 'alias a.test 80', 'POST /\r\n\r\n')).toContain('403')
  expect(await ask(path, 'alias a.test 80', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')).toBe('')
  expect(oracle.seen.length).toBe(before)
})

test('a request begun, and finished only when nobody looks any more, does not get through', async () => {
  const oracle = await listen(hello('reached'))
  const { path } = await broker(
    { pins: { 'a.test': `127.0.0.1:${oracle.port}` } },
    { caps: { handshakeMs: 60 } },
  )
  for (const begun of ['GE', 'GET / HTTP/1.1', '\r\n', '\x16\x03\x01']) {
    const socket = await open(path, 'alias a.test 80')
    socket.write(begun, 'latin1')
    await readAll(socket)
    socket.write('T / HTTP/1.1\r\nHost: other.test\r\n\r\n')
  }
  expect(oracle.seen).toEqual([])
})

async function pair(): Promise<[Socket, Socket]> {
  const arrived = Promise.withResolvers<Socket>()
  const { port } = await listen((socket) => arrived.resolve(socket))
  const program = await dial('127.0.0.1', port, 1000)
  defer(() => program.destroy())
  const client = await arrived.promise
  client.removeAllListeners('data').pause()
  return [client, program]
}

test('HTTP/2 without TLS, whose host we cannot read, leads only where the user pinned the host', async () => {
  const oracle = await listen()
  const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
  const pinned = await broker({ pins: { 'a.test': `127.0.0.1:${oracle.port}` } })
  const socket = await open(pinned.path, 'alias a.test 80')
  socket.write(preface)
  await expect.poll(() => Buffer.concat(oracle.seen).toString()).toBe(preface)

  const trust = () => createSecureContext()
  const options = { caps: defaultCaps, resolver: async () => [], onDecision: () => {}, trust }
  const gate = new Gate(parseOutputs({ allow: ['a.test'] }), options)
  const upstream = await dial('127.0.0.1', oracle.port, 1000)
  const [client, program] = await pair()
  program.write(preface)
  const passage = {
    target: { host: 'a.test', port: 80 },
    via: 'alias',
    upstream,
    pinned: false,
    forwarder: null,
    next: null,
  } as const
  await carry(gate, client, passage, 1000, {
    serveTunnel() {},
    serveRequests() {},
    serveOpened() {},
    opens: () => false,
    tell: async () => {},
  })
  await readAll(program)
  expect(Buffer.concat(oracle.seen).toString()).toBe(preface)
  expect(gate.usage().denied).toMatchObject([{ host: 'a.test' }])
})

test.each([
  ['SSH-2.0-client\r\n', 'other'],
  ['EHLO me\r\n', 'other'],
  ['0031git-upload-pack /x\0host=a.test\0', 'other'],
  ['*1\r\n$4\r\nPING\r\n', 'other'],
  ['AMQP\0\0\x09\x01', 'other'],
  ['A\x0d\0\0\x01\0\0\0', 'other'],
  ['\xff\xfb\x1f\xff\xfb\x20', 'other'],
  ['\0\0\0\x08\x04\xd2\x16\x2f', 'other'],
  ['\x15\0\0\0', 'other'],
  ['get /a/key\r\n', 'other'],
  ['USER anonymous\r\n', 'other'],
  ['OPTIONS rtsp://a.test/x RTSP/1.0\r\n', 'other'],
  ['GET RTSP/1.0\r\n', 'broken'],
  ['GET /a/key\r\n', 'broken'],
  ['GET\0/ HTTP/1.1\r\n', 'broken'],
  ['1 LOGIN ada secret\r\n', 'other'],
  ['@RSYNCD: 31.0\n', 'other'],
  ['example.com\r\n', 'other'],
  ['GET / HTTP/1.1\r\n', 'http'],
  ['GET ', 'more'],
])('%j is taken for %s', (text, kind) => {
  expect(peek(Buffer.from(text, 'latin1')).kind).toBe(kind)
})

test('a protocol whose first words have no line end, or look like old HTTP, reaches a host that the user pinned', async () => {
  const zookeeper = await listen((socket) =>
    socket.once('data', (word) => socket.end(`im${word.toString()}`)),
  )
  const oracle = await listen((socket) => socket.once('data', () => socket.write('heard')))
  const { path } = await broker({
    pins: { 'z.test': `127.0.0.1:${zookeeper.port}`, 'a.test': `127.0.0.1:${oracle.port}` },
  })
  expect(await ask(path, 'alias z.test 2181', 'ruok')).toBe('imruok')
  for (const words of [
    'GET foo\r\n',
    'GET user:1\r\n',
    'CONNECT {"verbose":false}\r\n',
    'x'.repeat(100_000),
  ]) {
    const socket = await open(path, 'alias a.test 6379')
    socket.write(words)
    expect((await once(socket, 'data')).toString(), words.slice(0, 20)).toBe('heard')
    socket.destroy()
  }
})

test.each(['ruok', 'GET', 'GET /', 'GET / HT', 'x'.repeat(4093), 'x'.repeat(70_000)])(
  'what begins as %.20s and goes on as a request for another host is cut before the server has a line of it',
  async (begin) => {
    const oracle = await listen()
    const { path, decisions } = await broker({ pins: { 'a.test': `127.0.0.1:${oracle.port}` } })
    const socket = await open(path, 'alias a.test 80')
    socket.write(begin)
    await expect.poll(() => Buffer.concat(oracle.seen).toString()).toBe(begin)
    const request = 'GET / HTTP/1.1\r\nHost: other.test\r\n\r\n'
    socket.write(
      !begin.startsWith('GET') ? ' / HTTP/1.1\r\nHost: other.test\r\n\r\n' : request.slice(begin.length),
    )
    await readAll(socket)
    expect(decisions.at(-1)).toMatchObject({
      allowed: false,
      why: expect.stringMatching(/as a request|Host/),
    })
    expect(Buffer.concat(oracle.seen).toString()).toBe(begin)
  },
)

test.each([
  ['GET', ' / HTTP/1.1\r\nHost: a.test\r\n\r\n'],
  ['\r\n', 'GET / HTTP/1.1\r\nHost: a.test\r\n\r\n'],
  ['P', 'OST / HT', `TP/1.1\r\nHost: a.test\r\nContent-Length: 9000\r\n\r\n${'x'.repeat(9000)}`],
])(
  'a request to a pinned host that begins with %o and goes on later is answered, and the next one too',
  async (...pieces) => {
    const seen: string[] = []
    const web = createWeb((request, response) => {
      let length = 0
      request.on('data', (bytes: Buffer) => (length += bytes.length))
      request.on('end', () => {
        seen.push(`${request.method ?? ''} ${length}`)
        response.setHeader('Content-Length', 4).end('fine')
      })
    }).listen(0, '127.0.0.1')
    await once(web, 'listening')
    defer(() => (web.close(), web.closeAllConnections()))
    const { path } = await broker({ pins: { 'a.test': `127.0.0.1:${(web.address() as AddressInfo).port}` } })
    const socket = await open(path, 'alias a.test 80')
    for (const piece of pieces) {
      socket.write(piece)
      if (piece !== pieces.at(-1)) await delay(400)
    }
    expect(await readSome(socket, (text) => text.includes('fine'))).toMatch(/^HTTP\/1.1 200 /)
    socket.write('GET / HTTP/1.1\r\nHost: a.test\r\n\r\n')
    expect(await readSome(socket, (text) => text.includes('fine'))).toMatch(/^HTTP\/1.1 200 /)
    expect(seen).toEqual([pieces[0] === 'P' ? 'POST 9000' : 'GET 0', 'GET 0'])
  },
)

test('where only reading is let through, first words that stay unfinished reach nobody', async () => {
  const oracle = await listen()
  const pins = { 'a.test': `127.0.0.1:${oracle.port}` }
  const { path } = await broker({ pins, read_only: true }, { caps: { handshakeMs: 600 } })
  expect(await ask(path, 'alias a.test 80', 'ruok')).toContain('403')
  expect(oracle.seen).toEqual([])
})
