import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { peek } from './hello.ts'
import { normaliseHost } from './names.ts'
import { encodeReply, parseGreeting, parseOldRequest, parseRequest } from './socks.ts'
import { anyText } from './testing/anyText.ts'
import { hello, readAll, useGround } from './testing/ground.ts'
import { encodeOpening, parseOpening, readLine } from './wire.ts'

const { ask, broker, listen, open } = useGround()

const bytesOf = (maximum: number) => fc.uint8Array({ maxLength: maximum }).map((bytes) => Buffer.from(bytes))

test('a SOCKS frame leads to the host and port it names, cut or whole, whatever follows it', () => {
  const address = fc.oneof(
    fc.ipV4().map((host) => ({ host, type: 1, bytes: Buffer.from(host.split('.').map(Number)) })),
    fc.domain().map((host) => ({ host, type: 3, bytes: Buffer.from(`\0${host}`) })),
  )
  fc.assert(
    fc.property(
      address,
      fc.integer({ min: 1, max: 65_535 }),
      bytesOf(20),
      ({ host, type, bytes }, port, rest) => {
        if (type === 3) bytes[0] = bytes.length - 1
        const end = Buffer.from([port >> 8, port & 255])
        const frame = Buffer.concat([Buffer.from([5, 1, 0, type]), bytes, end])
        for (const cut of [1, 4, frame.length - 1]) expect(parseRequest(frame.subarray(0, cut))).toBeNull()
        const read = parseRequest(Buffer.concat([frame, rest]))
        expect(read?.value).toEqual({ kind: 'connect', target: { host: normaliseHost(host), port } })
        expect(read?.used).toBe(frame.length)
      },
    ),
    { numRuns: 200 },
  )
})

test('whatever bytes pretend to be SOCKS, what comes out is a proper target, a refusal or a wish for more', () => {
  fc.assert(
    fc.property(bytesOf(300), fc.integer({ min: 0, max: 5 }), (bytes, type) => {
      const frame = Buffer.concat([Buffer.from([5, 1, 0, type]), bytes])
      const greeting = parseGreeting(bytes)
      if (greeting?.value === true) expect(bytes[0]).toBe(5)
      const old = parseOldRequest(bytes)
      if (old?.value != null) expect(normaliseHost(old.value.host)).toBe(old.value.host)
      if (bytes.length >= 600) expect(old).not.toBeNull()
      const read = parseRequest(frame)
      if (read === null) return
      expect(read.used).toBeLessThanOrEqual(frame.length)
      if (read.value.kind === 'bad') return void expect(encodeReply(read.value.reply)).toHaveLength(10)
      const { host, port } = read.value.target
      expect(normaliseHost(host)).toBe(host)
      expect(port).toBeGreaterThan(0)
    }),
    { numRuns: 300 },
  )
})

test('the line between relay and broker says what was asked, and no other line does', () => {
  const opening = fc.record({
    kind: fc.constant('alias' as const),
    host: fc.domain(),
    port: fc.integer({ min: 1, max: 65_535 }),
  })
  fc.assert(
    fc.property(opening, bytesOf(30), (asked, rest) => {
      const line = encodeOpening(asked)
      const read = readLine(Buffer.concat([Buffer.from(line), rest]))
      expect(read).toEqual({ value: asked, used: line.length })
    }),
    { numRuns: 100 },
  )
  fc.assert(
    fc.property(anyText(), (text) => {
      const parsed = parseOpening(text)
      if (parsed !== null) expect(`${text}\n`).toBe(encodeOpening(parsed))
    }),
    { numRuns: 200 },
  )
})

test('a request for another host in any disguise comes out as a request or as broken, never as something else', () => {
  const space = fc.constantFrom(' ', '  ', '\t', ' \t', '\v', '\f', '\r')
  const line = fc.tuple(
    fc.constantFrom('', '\r\n', '\n\n', '\n\r\n', ' ', '\t\n'),
    fc.constantFrom('GET', 'get', 'POST', 'Put', 'PROPFIND', 'G_T', '~1', 'X'.repeat(300)),
    space,
    anyText().map((path) => `/${encodeURIComponent(path.toWellFormed())}\xe4`),
    space,
    fc.constantFrom('HTTP/1.1', 'http/1.1', 'HTTP/1.0', 'HTTP/1.1 ', 'HTTP/3.0'),
    fc.constantFrom('\r\n', '\n', '\r\r\n'),
  )
  fc.assert(
    fc.property(line, fc.nat(40), (parts, cut) => {
      const bytes = Buffer.from(`${parts.join('')}Host: other.test\r\n\r\n`, 'latin1')
      expect(['http', 'broken']).toContain(peek(bytes).kind)
      expect(['more', 'http', 'broken']).toContain(peek(bytes.subarray(0, cut)).kind)
    }),
    { numRuns: 200 },
  )
})

test('a line of the PROXY protocol is broken, old or new, since TLS behind it would name any host', () => {
  const old = Buffer.from('PROXY TCP4 10.0.0.1 10.0.0.2 1 443\r\n')
  const new_ = Buffer.from('\r\n\r\n\0\r\nQUIT\n\x21\x11\0\0', 'latin1')
  for (const line of [old, new_, Buffer.from('PROXY UNKNOWN\0\r\n')]) {
    expect(peek(Buffer.concat([line, Buffer.from([0x16, 3, 1])])).kind).toBe('broken')
    for (let cut = 1; cut < line.length; cut++)
      expect(['more', 'broken']).toContain(peek(line.subarray(0, cut)).kind)
  }
})

test('whatever bytes pretend to be TLS, no name comes out that was not in them', () => {
  fc.assert(
    fc.property(bytesOf(400), (bytes) => {
      const hello = Buffer.concat([
        Buffer.from([0x16, 3, 1, bytes.length >> 8, bytes.length & 255, 1, 0]),
        bytes,
      ])
      const peeked = peek(hello)
      expect(['more', 'tls', 'broken']).toContain(peeked.kind)
      if (peeked.kind === 'tls' && peeked.serverName !== null) {
        expect(hello.toString('latin1')).toContain(peeked.serverName)
      }
    }),
    { numRuns: 300 },
  )
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
  const bytes = fc.array(fc.oneof(word, anyText()), { maxLength: 12 }).map((words) => words.join(''))
  const line = fc.constantFrom('proxy', 'alias a.test 80', `alias ${evil.replace(':', ' ')}`, 'nonsense', '')
  await fc.assert(
    fc.asyncProperty(line, bytes, async (first, text) => {
      const socket = await open(path, first)
      socket.end(text, 'latin1')
      const ended = await Promise.race([readAll(socket), new Promise((done) => setTimeout(done, 3000, null))])
      socket.destroy()
      expect(ended, 'the connection ends').not.toBeNull()
      expect(forbidden.connections).toBe(0)
    }),
    { numRuns: 30 },
  )
  const good = 'GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n'
  expect(await ask(path, 'proxy', good)).toContain('200 OK')
})
