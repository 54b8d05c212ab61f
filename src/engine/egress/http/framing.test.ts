import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { hello, useGround, type Oracle } from '../testing/ground.ts'
import { proxiesOf } from '../dial/upstream.ts'

const { ask, broker, listen } = useGround()

const smuggled = 'POST /smuggled HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 0\r\n\r\n'
const outputsTo = ({ port }: Oracle, read_only = false) => ({
  mode: 'restricted' as const,
  allow: ['a.test'],
  pins: { 'a.test': `127.0.0.1:${port}` },
  read_only,
})
const sized = `Content-Length: ${smuggled.length}\r\n`
const bodies = {
  'content-length': `${sized}\r\n${smuggled}`,
  'transfer-encoding': `Transfer-Encoding: chunked\r\n\r\n${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`,
}
const received = (oracle: Oracle) => Buffer.concat(oracle.seen).toString('latin1')
/** The head says how the bytes behind it are read. */
function expectFramed(text: string): void {
  const [head = '', ...rest] = text.split('\r\n\r\n')
  if (rest.join('') === '') return
  expect(head).toMatch(/\r\n(content-length: \d+|transfer-encoding: chunked)/i)
}

test.each([
  ['content-length', 'POST', false],
  ['transfer-encoding', 'POST', false],
  ['content-length', 'GET', true],
  ['transfer-encoding', 'GET', true],
] as const)(
  'a Connection header that names %s does not make a body of %s a second request (read-only: %s)',
  async (named, method, readOnly) => {
    const server = await listen(hello('a'))
    const { path } = await broker(outputsTo(server, readOnly))
    const head = `${method} http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: close, ${named.toUpperCase()}\r\n`
    expect(await ask(path, 'proxy', head + bodies[named])).toContain('200 OK')
    expect(received(server)).toContain('smuggled')
    expectFramed(received(server))
  },
)

test('a Connection header that names Host does not take it from the server', async () => {
  const server = await listen(hello('a'))
  const { path } = await broker(outputsTo(server))
  const request =
    'GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: close, Host, X-Own\r\nX-Own: 1\r\n\r\n'
  expect(await ask(path, 'proxy', request)).toContain('200 OK')
  expect(received(server)).toMatch(/\r\nHost: a\.test\r\n/)
  expect(received(server)).not.toContain('X-Own')
})

test("a proxy of the user's own gets whole requests too, whatever their Connection header names", async () => {
  const proxy = await listen(hello('a'))
  const { path } = await broker(
    { mode: 'restricted', allow: ['a.test'] },
    {
      proxies: proxiesOf({ HTTP_PROXY: `http://127.0.0.1:${proxy.port}` }, true).proxies,
      resolver: () => Promise.reject(new Error('nobody to ask')),
    },
  )
  const head = 'POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: close, host, content-length\r\n'
  expect(await ask(path, 'proxy', head + bodies['content-length'])).toContain('200 OK')
  expect(received(proxy)).toMatch(/^POST http:\/\/a\.test\/ HTTP\/1\.1\r\n/)
  expect(received(proxy)).toMatch(/\r\nHost: a\.test\r\n/)
  expectFramed(received(proxy))
})

test('whatever a Connection header names, in whatever spelling, no body goes out that its head does not announce', async () => {
  const server = await listen(hello('a'))
  const { path } = await broker(outputsTo(server))
  const name = fc.constantFrom('close', 'Content-Length', 'transfer-encoding', 'HOST', 'x', '', ' ', 'te')
  const line = fc
    .array(fc.tuple(fc.constantFrom('', ' ', '\t'), name), { maxLength: 5 })
    .map((names) => `Connection:${names.map(([space, text]) => space + text).join(',')}\r\n`)
  await fc.assert(
    fc.asyncProperty(
      fc.array(line, { maxLength: 3 }),
      fc.constantFrom('content-length' as const, 'transfer-encoding' as const),
      async (lines, kind) => {
        server.seen.length = 0
        const head = `POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n${lines.join('')}`
        expect(await ask(path, 'proxy', head + bodies[kind])).toContain('200 OK')
        expect(received(server)).toMatch(/\r\nHost: a\.test\r\n/)
        expectFramed(received(server))
      },
    ),
    { numRuns: 25 },
  )
})
