import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer as createWeb } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { hello, readAll, readSome, useGround } from '../testing/ground.ts'

const { ask, broker, defer, listen, open } = useGround()

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
  defer(() => (web.close(), web.closeAllConnections()))
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
    // What is still open when the broker goes is reset.
    socket.on('error', () => {})
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    socket.pipe(socket)
  })
  web.listen(0, '127.0.0.1')
  await once(web, 'listening')
  defer(() => (web.close(), web.closeAllConnections()))
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

test.each([
  ['line feeds alone', 'HTTP/1.0 200 OK\nContent-Type: text/plain\n\nhi', 'Content-Type: text/plain'],
  [
    'a folded header',
    'HTTP/1.1 200 OK\r\nX-Long: one,\r\n\ttwo\r\nContent-Length: 2\r\n\r\nhi',
    'X-Long: one, two',
  ],
  ['a space before the colon', 'HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nhi', 'Content-Length: 2'],
])(
  'an answer with %s is read as other programs read it, and passed on in proper form',
  async (_, said, passed) => {
    const upstream = await listen((socket) => socket.once('data', () => socket.end(said)))
    const { path } = await broker({ pins: { 'a.test': `127.0.0.1:${upstream.port}` } })
    const answer = await ask(
      path,
      'alias a.test 80',
      'GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n',
    )
    expect(answer).toMatch(/^HTTP\/1.1 200 OK\r\n/)
    expect(answer).toContain(`\r\n${passed}\r\n`)
    expect(answer).toMatch(/\r\n\r\nhi$/)
  },
)

test.each(['SSH-2.0-x\r\n\r\n', 'HTTP/1.1 200 OK\r\nX Y: z\r\n\r\n', ' folded: from nothing\r\n\r\n'])(
  'a program is told that %o is no proper answer, and not that there was none, also to a web socket',
  async (said) => {
    const upstream = await listen((socket) => socket.once('data', () => socket.write(said)))
    const { path } = await broker({ pins: { 'a.test': `127.0.0.1:${upstream.port}` } })
    const told = '502 Orangery cannot read what a.test:80 answered: it is no proper HTTP'
    const head = 'GET / HTTP/1.1\r\nHost: a.test\r\n'
    expect(await ask(path, 'alias a.test 80', `${head}Connection: close\r\n\r\n`)).toContain(told)
    const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
    expect(await ask(path, 'alias a.test 80', head + upgrade)).toContain(told)
  },
)

test.each([
  ['a length', 'Content-Length: 2\r\n\r\n', ['n', 'o']],
  ['nothing', 'Content-Length: 0\r\n\r\n', []],
  [
    'chunks',
    'Transfer-Encoding: chunked\r\n\r\n',
    ['2;x=y\r\nn', 'o\r\n3\r\n0\r\n\r', '\n0\r\nTrailer: a\r\n\r', '\n'],
  ],
])(
  'a web socket that the server refuses with %s ends where the answer does, though the server keeps its connection',
  async (_, head, parts) => {
    const upstream = await listen((socket) => {
      socket.once('data', async () => {
        for (const part of [`HTTP/1.1 426 Upgrade Required\r\n${head}`, ...parts]) {
          socket.write(part)
          await delay(20)
        }
      })
    })
    const { path } = await broker({ pins: { 'ws.test': `127.0.0.1:${upstream.port}` } })
    const request = 'GET / HTTP/1.1\r\nHost: ws.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
    const answer = await ask(path, 'alias ws.test 80', request)
    expect(answer).toMatch(/^HTTP\/1.1 426 .*\r\nConnection: close\r\n\r\n/s)
    expect(answer.endsWith(`\r\n\r\n${parts.join('')}`)).toBe(true)
  },
)

test('requests that nobody answers yet are not read without end, and once they are it goes on', async () => {
  const held: Socket[] = []
  const upstream = await listen((socket) => void held.push(socket))
  const { path } = await broker({ pins: { 'a.test': `127.0.0.1:${upstream.port}` } })
  const request = `GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nX: ${'x'.repeat(8000)}\r\n\r\n`
  const socket = await open(path, 'proxy')
  socket.on('error', () => {})
  let sent = 0
  // Until the socket takes no more: what is in flight is the kernel's, and little.
  for (; sent < 2000; sent++) {
    if (socket.write(request)) continue
    const isTaken = await Promise.race([once(socket, 'drain').then(() => true), delay(500, false)])
    if (!isTaken) break
  }
  expect(sent).toBeLessThan(500)
  let answered = 0
  socket.on('data', (bytes: Buffer) => (answered += bytes.toString().split('200 OK').length - 1))
  const answerAll = () => {
    for (const each of held.splice(0)) each.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
    return answered
  }
  await expect.poll(answerAll, { interval: 1 }).toBeGreaterThan(20)
  socket.destroy()
})

test('a connection with more requests at one time than any program has is cut, and that is on record', async () => {
  const upstream = await listen(() => {})
  const { path, decisions } = await broker({ pins: { 'a.test': `127.0.0.1:${upstream.port}` } })
  const socket = await open(path, 'proxy')
  socket.write('GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n'.repeat(1000))
  await readAll(socket)
  expect(decisions.filter(({ allowed }) => !allowed).map(({ why }) => why)).toEqual([
    'more than 256 requests at one time on one connection',
  ])
})

test('behind a refused request nothing of its connection is carried out, neither a request nor a tunnel', async () => {
  const upstream = await listen(hello('x'))
  const { path, decisions } = await broker({ pins: { 'a.test': `127.0.0.1:${upstream.port}` } })
  const request = (host: string) => `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`
  for (const behind of [request('a.test'), 'CONNECT a.test:80 HTTP/1.1\r\nHost: a.test\r\n\r\n'])
    expect(await ask(path, 'proxy', request('a.test') + request('b.test') + behind)).toMatch(
      /^HTTP\/1.1 200 [^]*\r\n\r\nxHTTP\/1.1 403 [^]*Orangery[^]*/,
    )
  expect(decisions.map(({ host }) => host)).toEqual(['a.test', 'b.test', 'a.test', 'b.test'])
  expect(upstream.connections).toBe(2)
})

test('answers to requests that did not wait for each other come whole and in their order', async () => {
  const upstream = await listen((socket) => {
    socket.once('data', (said) => {
      if (!said.toString().includes('/slow'))
        return socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nBBB\r\n0\r\n\r\n')
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nAAAAA')
      setTimeout(() => socket.end('AAAAA'), 50)
    })
  })
  const { path } = await broker({ pins: { 'a.test': `127.0.0.1:${upstream.port}` } })
  const request = (place: string) => `GET http://a.test${place} HTTP/1.1\r\nHost: a.test\r\n\r\n`
  const answers = await ask(path, 'proxy', request('/slow') + request('/quick'))
  expect(answers).toMatch(/^HTTP[^]*\r\n\r\nA{10}HTTP[^]*\r\n\r\n3\r\nBBB\r\n0\r\n\r\n$/)
})
