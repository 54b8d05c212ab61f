import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { createServer as createWeb } from 'node:http'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as tlsConnect } from 'node:tls'
import * as fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Outputs } from '../../shared/spec.ts'
import { startBroker, type Broker, type BrokerOptions } from './broker.ts'
import type { Decided } from './gate.ts'
import { parseOutputs } from './policy.ts'

let dir: string
let cleanup: (() => Promise<unknown> | unknown)[] = []
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'egress-'))
})
afterEach(async () => {
  for (const step of cleanup.reverse()) await step()
  cleanup = []
  await rm(dir, { recursive: true, force: true })
})

/** A listener that remembers who came: the oracle of every refusal. */
type Oracle = {
  readonly port: number
  readonly seen: Buffer[]
  connections: number
  readonly sockets: Set<Socket>
}
async function listen(onConnection: (socket: Socket) => void = () => {}): Promise<Oracle> {
  const oracle = { port: 0, seen: [] as Buffer[], connections: 0, sockets: new Set<Socket>() }
  const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
    oracle.connections++
    oracle.sockets.add(socket)
    socket.on('error', () => {})
    socket.on('data', (chunk) => oracle.seen.push(chunk))
    onConnection(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanup.push(() => {
    for (const socket of oracle.sockets) socket.destroy()
    server.close()
  })
  return Object.assign(oracle, { port: (server.address() as AddressInfo).port })
}
const echo = () => listen((socket) => socket.pipe(socket))
const hello = (text: string) => (socket: Socket) => {
  socket.once('end', () => socket.end())
  socket.once('data', () => socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`))
}

type Setup = { broker: Broker; decisions: Decided[]; path: string }
async function broker(outputs: Outputs, options: Partial<BrokerOptions> = {}): Promise<Setup> {
  const decisions: Decided[] = []
  const path = join(dir, 'b.sock')
  const started = await startBroker({
    socketPath: path,
    policy: parseOutputs(outputs),
    onDecision: (decided) => decisions.push(decided),
    ...options,
  })
  cleanup.push(() => started.close())
  return { broker: started, decisions, path }
}

async function open(path: string, line: string): Promise<Socket> {
  const socket = connect({ path, allowHalfOpen: true })
  socket.on('error', () => {})
  await once(socket, 'connect')
  socket.write(`${line}\n`)
  cleanup.push(() => socket.destroy())
  return socket
}

/** Sends bytes and gives everything that came back until the other side ended. */
async function ask(path: string, line: string, bytes: string | Buffer): Promise<string> {
  const socket = await open(path, line)
  socket.write(bytes)
  return (await readAll(socket)).toString('latin1')
}
async function readAll(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  await new Promise((done) => {
    socket.once('end', done)
    socket.once('close', done)
    socket.resume()
  })
  return Buffer.concat(chunks)
}
async function readSome(socket: Socket, enough: (text: string) => boolean): Promise<string> {
  let text = ''
  socket.resume()
  while (!enough(text)) {
    const [chunk] = (await once(socket, 'data')) as [Buffer]
    text += chunk.toString('latin1')
  }
  socket.pause()
  return text
}
async function tunnel(path: string, target: string): Promise<Socket> {
  const socket = await open(path, 'proxy')
  socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`)
  expect(await readSome(socket, (text) => text.endsWith('\r\n\r\n'))).toMatch(/^HTTP\/1.1 200 /)
  return socket
}

describe('ways in', () => {
  test('a CONNECT tunnel carries every byte both ways and both ends', async () => {
    const upstream = await echo()
    const {
      path,
      broker: started,
      decisions,
    } = await broker({ pins: { 'a.test': `127.0.0.1:${upstream.port}` } })
    const socket = await tunnel(path, 'A.test.:443')
    const sent = Buffer.concat([Buffer.from([0]), randomBytes(8 * 1024 * 1024)])
    const back = readAll(socket)
    socket.end(sent)
    const hash = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
    expect(hash(await back)).toBe(hash(sent))
    expect(decisions).toEqual([
      expect.objectContaining({ host: 'a.test', port: 443, allowed: true, via: 'connect' }),
    ])
    await expect
      .poll(() => started.usage().allowed)
      .toEqual([{ host: 'a.test', connections: 1, bytes: 2 * sent.length }])
  })

  test('a server that speaks first is heard before the client says anything', async () => {
    const upstream = await listen((socket) => socket.write('SSH-2.0-test\r\n'))
    const { path } = await broker({ pins: { 'git.test': `127.0.0.1:${upstream.port}` } })
    const socket = await open(path, 'alias git.test 22')
    expect(await readSome(socket, (text) => text.includes('\n'))).toBe('SSH-2.0-test\r\n')
    socket.write('SSH-2.0-client\r\n')
    await expect.poll(() => Buffer.concat(upstream.seen).toString()).toBe('SSH-2.0-client\r\n')
  })

  test('plain HTTP is passed on with its own path and without what concerns the proxy', async () => {
    const upstream = await listen(hello('fine'))
    const { path } = await broker({ pins: { 'web.test': `127.0.0.1:${upstream.port}` } })
    const answer = await ask(
      path,
      'proxy',
      'GET http://web.test/a?b=c HTTP/1.1\r\nHost: web.test\r\nProxy-Authorization: Basic eA==\r\nX-Own: 1\r\nConnection: close, X-Own\r\n\r\n',
    )
    expect(answer).toMatch(/^HTTP\/1.1 200 OK\r\n.*\r\n\r\nfine$/s)
    const request = Buffer.concat(upstream.seen).toString()
    expect(request).toMatch(/^GET \/a\?b=c HTTP\/1.1\r\n/)
    expect(request).not.toMatch(/proxy-authorization|x-own/i)
  })

  test('bodies of requests and of answers of any framing arrive whole', async () => {
    const body = randomBytes(3 * 1024 * 1024)
    const web = createWeb((request, response) => {
      if (request.url === '/length') response.setHeader('Content-Length', body.length)
      if (request.url === '/empty') return void response.writeHead(204).end()
      const hash = createHash('sha256')
      request.on('data', (chunk: Buffer) => hash.update(chunk))
      request.on('end', () => {
        response.setHeader('X-Hash', hash.digest('hex'))
        response.write(body.subarray(0, 1000))
        response.end(body.subarray(1000))
      })
    }).listen(0, '127.0.0.1')
    await once(web, 'listening')
    cleanup.push(() => (web.close(), web.closeAllConnections()))
    const { path } = await broker({
      pins: { 'web.test': `127.0.0.1:${(web.address() as AddressInfo).port}` },
    })
    const sha = createHash('sha256').update(body).digest('hex')
    const split = (bytes: Buffer) => {
      const at = bytes.indexOf('\r\n\r\n')
      return { head: bytes.toString('latin1', 0, at), body: bytes.subarray(at + 4) }
    }
    const exchange = async (head: string, sent: Buffer) => {
      const socket = await open(path, 'proxy')
      socket.write(`${head}\r\nHost: web.test\r\nConnection: close\r\n\r\n`)
      socket.write(sent)
      return split(await readAll(socket))
    }
    const counted = await exchange(
      `POST http://web.test/length HTTP/1.1\r\nContent-Length: ${body.length}`,
      body,
    )
    expect(counted.head).toContain(`X-Hash: ${sha}`)
    expect(counted.body.equals(body)).toBe(true)
    const chunk = Buffer.concat([
      Buffer.from(`${body.length.toString(16)}\r\n`),
      body,
      Buffer.from('\r\n0\r\n\r\n'),
    ])
    const streamed = await exchange('POST http://web.test/ HTTP/1.1\r\nTransfer-Encoding: chunked', chunk)
    expect(streamed.head).toContain(`X-Hash: ${sha}`)
    expect(streamed.head).toMatch(/transfer-encoding: chunked/i)
    expect(streamed.body.length).toBeGreaterThan(body.length)
    const empty = await exchange('GET http://web.test/empty HTTP/1.1', Buffer.alloc(0))
    expect(empty.head).toMatch(/^HTTP\/1.1 204 /)
  })

  test('a program that ends its side after the request still gets the answer', async () => {
    const upstream = await listen(hello('late'))
    const { path } = await broker({ pins: { 'a.test': `127.0.0.1:${upstream.port}` } })
    for (const [line, url] of [
      ['alias a.test 80', '/'],
      ['proxy', 'http://a.test/'],
    ] as const) {
      const socket = await open(path, line)
      socket.end(`GET ${url} HTTP/1.0\r\nHost: a.test\r\n\r\n`)
      expect((await readAll(socket)).toString()).toContain('late')
    }
  })

  test('a tunnel that speaks HTTP may go on with a second request', async () => {
    const upstream = await listen(hello('x'))
    const { path } = await broker({ pins: { 'a.test': `127.0.0.1:${upstream.port}` } })
    const socket = await open(path, 'alias a.test 80')
    for (let turn = 0; turn < 2; turn++) {
      socket.write('GET / HTTP/1.1\r\nHost: a.test\r\n\r\n')
      expect(await readSome(socket, (text) => text.endsWith('\r\n\r\nx'))).toContain('200 OK')
    }
    expect(upstream.connections).toBe(2)
  })

  test('a server that greets and hangs up is seen to hang up', async () => {
    const upstream = await listen((socket) => socket.end('421 busy\r\n'))
    const { path } = await broker({ pins: { 'a.test': `127.0.0.1:${upstream.port}` } })
    expect((await readAll(await open(path, 'alias a.test 25'))).toString()).toBe('421 busy\r\n')
  })

  test('one connection serves many requests, each decided for itself', async () => {
    const upstream = await listen(hello('x'))
    const { path, decisions } = await broker({ pins: { 'web.test': `127.0.0.1:${upstream.port}` } })
    const socket = await open(path, 'proxy')
    for (let turn = 0; turn < 3; turn++) {
      socket.write('GET http://web.test/ HTTP/1.1\r\nHost: web.test\r\n\r\n')
      expect(await readSome(socket, (text) => text.endsWith('\r\n\r\nx'))).toContain('200 OK')
    }
    socket.write('GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n')
    expect(await readSome(socket, (text) => text.includes('Orangery'))).toContain('403')
    expect(decisions.map(({ host, allowed }) => `${host} ${allowed}`)).toEqual([
      'web.test true',
      'web.test true',
      'web.test true',
      'other.test false',
    ])
  })

  test('a web socket goes through, and another upgrade stays plain HTTP', async () => {
    const web = createWeb((_request, response) => response.end('plain'))
    web.on('upgrade', (_request, socket) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
      socket.pipe(socket)
    })
    web.listen(0, '127.0.0.1')
    await once(web, 'listening')
    cleanup.push(() => (web.close(), web.closeAllConnections()))
    const { path } = await broker({ pins: { 'ws.test': `127.0.0.1:${(web.address() as AddressInfo).port}` } })
    const socket = await open(path, 'alias ws.test 80')
    socket.write('GET / HTTP/1.1\r\nHost: ws.test\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n')
    expect(await readSome(socket, (text) => text.endsWith('\r\n\r\n'))).toMatch(/^HTTP\/1.1 101 /)
    socket.write('ping')
    expect(await readSome(socket, (text) => text.length >= 4)).toBe('ping')
    const answer = await ask(
      path,
      'alias ws.test 80',
      'GET / HTTP/1.1\r\nHost: ws.test\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n',
    )
    expect(answer).toContain('plain')
  })

  const socksTo = (type: number, address: Buffer, port: number, command = 1) =>
    Buffer.concat([
      Buffer.from([5, 1, 0, 5, command, 0, type]),
      address,
      Buffer.from([port >> 8, port & 255]),
    ])
  const named = (host: string) => Buffer.concat([Buffer.from([host.length]), Buffer.from(host)])

  test('SOCKS5 leads to allowed names and addresses and refuses others with "not allowed"', async () => {
    const upstream = await echo()
    const { path } = await broker({
      pins: { 'a.test': `127.0.0.1:${upstream.port}`, '127.0.0.0/8': '127.0.0.0/8' },
    })
    for (const request of [
      socksTo(3, named('a.test'), 443),
      socksTo(1, Buffer.from([127, 0, 0, 1]), upstream.port),
      socksTo(4, Buffer.from('00000000000000000000ffff7f000001', 'hex'), upstream.port),
    ]) {
      const socket = await open(path, 'proxy')
      socket.write(request)
      expect((await readSome(socket, (text) => text.length >= 12)).slice(0, 4)).toBe('\x05\0\x05\0')
      socket.write('\0ping')
      expect(await readSome(socket, (text) => text.length >= 5)).toBe('\0ping')
    }
    const before = upstream.connections
    expect(await ask(path, 'proxy', socksTo(3, named('b.test'), 443))).toContain('\x05\0\x05\x02')
    expect(await ask(path, 'proxy', socksTo(3, named('a.test'), 443, 3))).toContain('\x05\0\x05\x07')
    expect(await ask(path, 'proxy', Buffer.from([5, 1, 2]))).toBe('\x05\xff')
    expect(upstream.connections).toBe(before)
  })

  test('the socket is for its owner only and gone after close', async () => {
    const { path, broker: started } = await broker({})
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    await started.close()
    await expect(stat(path)).rejects.toThrowError('ENOENT')
  })
})

describe('refusals', () => {
  test('every way in names Orangery, the host and the reason, and nobody is reached', async () => {
    const oracle = await listen()
    const { path, decisions } = await broker({
      mode: 'restricted',
      allow: ['a.test'],
      pins: { 'other.test': `127.0.0.1:${oracle.port}` },
      deny: ['other.test'],
    })
    const connected = await ask(
      path,
      'proxy',
      'CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n',
    )
    const plain = await ask(path, 'proxy', 'GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n')
    const alias = await ask(path, 'alias other.test 80', 'GET / HTTP/1.1\r\nHost: other.test\r\n\r\n')
    for (const answer of [connected, plain, alias]) {
      expect(answer).toMatch(
        /^HTTP\/1.1 403 Orangery does not let this sandbox reach other\.test:\d+: denied by/,
      )
      expect(answer.split('\r\n\r\n')[1]).toContain('other.test')
    }
    expect(await ask(path, 'alias other.test 443', Buffer.from([0x16, 3, 1]))).toBe(
      '\x15\x03\x03\0\x02\x02\x31',
    )
    expect(decisions.map(({ allowed }) => allowed)).toEqual([false, false, false, false])
    expect(oracle.connections).toBe(0)
  })

  test.each([
    ['an address on this machine', ['127.0.0.1'], 'loopback'],
    ['IPv6 loopback', ['::1'], 'loopback'],
    ['mapped loopback', ['::ffff:127.0.0.1'], 'loopback'],
    ['NAT64 loopback', ['64:ff9b::7f00:1'], 'loopback'],
    ['the metadata service', ['169.254.169.254'], 'metadata'],
    ['the local network', ['192.168.1.1', '10.0.0.1'], 'private'],
    ['nothing public at all', ['0.0.0.0'], 'unspecified'],
  ])('an allowed name that leads to %s is refused', async (_what, addresses, why) => {
    const oracle = await listen()
    let lookups = 0
    const resolver = async () => (lookups++, addresses)
    const { path } = await broker({ mode: 'open' }, { resolver })
    const answer = await ask(path, 'proxy', `CONNECT name.test:${oracle.port} HTTP/1.1\r\nHost: x\r\n\r\n`)
    expect(answer).toContain('403 Orangery')
    expect(answer).toContain(why)
    expect(lookups).toBe(1)
    expect(oracle.connections).toBe(0)
  })

  test.each(['127.0.0.1', '2130706433', '0x7f.1', '[::1]', '[::ffff:127.0.0.1]', 'localhost', '0.0.0.0'])(
    'open outputs do not lead to %s',
    async (host) => {
      const oracle = await listen()
      const { path } = await broker({ mode: 'open' })
      const answer = await ask(path, 'proxy', `CONNECT ${host}:${oracle.port} HTTP/1.1\r\nHost: x\r\n\r\n`)
      expect(answer).toContain('403 Orangery')
      expect(oracle.connections).toBe(0)
    },
  )

  test('the same resolved address is reached where the user pinned its network (control)', async () => {
    const upstream = await echo()
    let lookups = 0
    const resolver = async () => (lookups++, lookups === 1 ? ['10.0.0.1', '127.0.0.1'] : ['127.0.0.2'])
    const { path } = await broker({ pins: { 'name.test': '127.0.0.0/8' } }, { resolver })
    await tunnel(path, `name.test:${upstream.port}`)
    expect(upstream.connections).toBe(1)
    expect(lookups).toBe(1)
  })

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
    ['CONNECT a.test HTTP/1.1\r\nHost: a.test\r\n\r\n', 'proxy', '400'],
    ['CONNECT a.test:443@other.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n', 'proxy', '400'],
  ])('%j over %s is refused before anything is sent', async (request, line, status) => {
    const oracle = await listen(hello('reached'))
    const { path } = await broker({ pins: { 'a.test': `127.0.0.1:${oracle.port}` } })
    expect(await ask(path, line, request)).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    expect(oracle.seen).toEqual([])
    const good = 'GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n'
    expect(await ask(path, 'proxy', good)).toContain('reached')
  })

  test('a second request hidden behind the first never reaches the server', async () => {
    const oracle = await listen(hello('x'))
    const { path } = await broker({ pins: { 'a.test': `127.0.0.1:${oracle.port}` } })
    const hidden = 'GET /hidden HTTP/1.1\r\nHost: other.test\r\n\r\n'
    await ask(path, 'alias a.test 80', `GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n${hidden}`)
    expect(Buffer.concat(oracle.seen).toString()).toContain('GET / HTTP/1.1')
    expect(Buffer.concat(oracle.seen).toString()).not.toContain('hidden')
  })

  test('TLS for another name than the tunnel is for is cut before the server sees a byte', async () => {
    const oracle = await listen()
    const { path, decisions } = await broker({ pins: { 'a.test': `127.0.0.1:${oracle.port}` } })
    const shake = async (servername: string, split: boolean) => {
      const socket = await tunnel(path, 'a.test:443')
      const pieces = split ? inPieces(socket) : socket
      const tls = tlsConnect({ socket: pieces, servername, rejectUnauthorized: false })
      const failed = once(tls, 'error').catch(() => {})
      await Promise.race([
        failed,
        expect.poll(() => oracle.seen.length, { timeout: 2000 }).toBeGreaterThan(0),
      ])
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
    expect(await ask(path, 'alias a.test 80', `post / ${head}`)).toBe('')
    expect(await ask(path, 'alias a.test 80', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')).toBe('')
    expect(oracle.seen.length).toBe(before)
  })

  test('whatever bytes come in, no one but the allowed host is reached and the broker lives', async () => {
    const allowed = await listen(hello('a'))
    const forbidden = await listen()
    const { path } = await broker(
      { mode: 'restricted', allow: ['a.test'], pins: { 'a.test': `127.0.0.1:${allowed.port}` } },
      { caps: { handshakeMs: 30 } },
    )
    const evil = `127.0.0.1:${forbidden.port}`
    const word = fc.constantFrom(
      'CONNECT',
      'GET',
      'POST',
      ' ',
      '\r\n',
      '\n',
      '\0',
      'HTTP/1.1',
      'Host:',
      'a.test',
      evil,
      `http://${evil}/`,
      '@',
      '\x05\x01\x00',
      '\x05\x01\x00\x03',
      '\x16\x03\x01',
    )
    const bytes = fc
      .array(fc.oneof(word, fc.string({ unit: 'binary' })), { maxLength: 12 })
      .map((words) => words.join(''))
    const line = fc.constantFrom(
      'proxy',
      'alias a.test 80',
      `alias ${evil.replace(':', ' ')}`,
      'nonsense',
      '',
    )
    await fc.assert(
      fc.asyncProperty(line, bytes, async (first, text) => {
        const socket = await open(path, first)
        socket.end(text, 'latin1')
        const ended = await Promise.race([
          readAll(socket),
          new Promise((done) => setTimeout(done, 3000, null)),
        ])
        socket.destroy()
        expect(ended, 'the connection ends').not.toBeNull()
        expect(forbidden.connections).toBe(0)
      }),
      { numRuns: 60 },
    )
    const good = 'GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n'
    expect(await ask(path, 'proxy', good)).toContain('200 OK')
  })
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

describe('a running sandbox', () => {
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

  test('a secret is put in for its own hosts only, and replaces what the agent says', async () => {
    const upstream = await listen(hello('x'))
    const pin = `127.0.0.1:${upstream.port}`
    const { path } = await broker(
      { pins: { 'api.test': pin, 'web.test': pin } },
      { credentials: [{ hosts: ['api.test'], header: 'Authorization', value: 'Bearer s3cret', tls: false }] },
    )
    const request = (host: string) =>
      `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\nAuthorization: placeholder\r\nConnection: close\r\n\r\n`
    await ask(path, 'proxy', request('api.test'))
    const [own] = upstream.seen.splice(0)
    expect(own?.toString().match(/authorization: .*/gi)).toEqual(['Authorization: Bearer s3cret'])
    await ask(path, 'proxy', request('web.test'))
    expect(Buffer.concat(upstream.seen).toString()).toContain('Authorization: placeholder')
  })
})
