import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { peek } from './tls/hello.ts'
import { normaliseHost } from './rules/names.ts'
import { encodeReply, parseGreeting, parseOldRequest, parseRequest } from './dial/socks.ts'
import { anyText } from './testing/anyText.ts'
import { hello, readAll, useGround } from './testing/ground.ts'
import { encodeOpening, parseOpening, readLine } from './line/wire.ts'

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
  const space = fc.constantFrom(
    ' ',
    '  ',
    '\t',
    ' \t',
    '\v',
    '\f',
    '\r',
    '\x1c',
    '\x1d',
    '\x1e',
    '\x1f',
    '\x85',
    '\xa0',
  )
  const line = fc.tuple(
    fc.constantFrom('', '\r\n', '\n\n', '\n\r\n', ' ', '\t\n', '\x1f', '\xa0', '\x85\x1c'),
    fc.constantFrom('GET', 'get', 'POST', 'Put', 'PROPFIND', 'G_T', '~1', 'X'.repeat(300)),
    space,
    fc
      .tuple(anyText(), fc.constantFrom('\xe4', '\x01', '\xb5\x80'))
      .map(([path, odd]) => `/${encodeURIComponent(path.toWellFormed())}${odd}`),
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

/** As Python's http.server reads a request line, with any method: split at white space, two words mean HTTP/0.9. */
function isRequestInPython(bytes: Buffer): boolean {
  const [line = ''] = bytes.toString('latin1').split('\n')
  const words = line.split(new RegExp(String.raw`[\t-\r\x1c-\x20\x85\xa0]+`)).filter(Boolean)
  if (words.length === 2) return words[0] === 'GET'
  return words.length === 3 && /^[A-Z]{3,}$/.test(words[0] ?? '') && words[2]?.startsWith('HTTP/') === true
}

test("what Python's web server would take for a request is one or broken, whatever bytes it is made of and however cut", () => {
  const space = fc.constantFrom(' ', '\t', '\v', '\f', '\r', '\x1c', '\x1d', '\x1e', '\x1f', '\x85', '\xa0')
  const spaces = (minLength: number) =>
    fc.array(space, { minLength, maxLength: 3 }).map((all) => all.join(''))
  const part = fc.constantFrom(
    '/',
    'x',
    '\0',
    '\x01',
    '\x7f',
    '\x80',
    '\xff',
    'RTSP/1.0',
    'HTTP/1.1',
    '\x16\x03',
  )
  const line = fc.tuple(
    spaces(0),
    fc.constantFrom('GET', 'GET', 'POST', 'PROPFIND'),
    spaces(1),
    fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('')),
    fc.oneof(fc.constant(''), spaces(1)),
    fc.constantFrom('HTTP/1.1', 'HTTP/1.0', 'HTTP/0.9', 'HTTP/', 'HTTP/x', ''),
    spaces(0),
    fc.constantFrom('\n', '\r\n'),
  )
  let requests = 0
  fc.assert(
    fc.property(line, fc.nat(20), (parts, cut) => {
      const said = Buffer.from(parts.join(''), 'latin1')
      if (!isRequestInPython(said)) return
      requests++
      expect(['http', 'broken']).toContain(peek(said).kind)
      expect(['more', 'http', 'broken']).toContain(peek(said.subarray(0, cut)).kind)
    }),
    { numRuns: 500 },
  )
  expect(requests).toBeGreaterThan(100)
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

test('TLS that begins with anything but a plain hello is broken: a server would read the name behind it', () => {
  const hidden = Buffer.from([0x16, 3, 1, 0, 4, 1, 0, 0, 0])
  const beginnings = [
    [0x15, 3, 1, 0, 2, 1, 0x5a],
    [0x14, 3, 3, 0, 1, 1],
    [0x17, 3, 3, 0, 0],
    [0x18, 3, 2, 0, 3, 1, 0, 0],
    [0x16, 3, 1, 0, 0],
    [0x80, 0x2e, 1, 3, 1, 0, 0x15],
    [0x80, 0x2e, 1, 0, 2, 0, 0x15],
  ]
  for (const bytes of beginnings) {
    const said = Buffer.concat([Buffer.from(bytes), hidden])
    expect(peek(said)).toEqual({ kind: 'broken', like: 'TLS' })
    for (let cut = 1; cut < said.length; cut++)
      expect(['more', 'broken']).toContain(peek(said.subarray(0, cut)).kind)
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
