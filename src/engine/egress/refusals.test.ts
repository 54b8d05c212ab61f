import { expect, test } from 'vitest'
import { useGround } from './testing/ground.ts'

const { ask, broker, echo, listen, tunnel } = useGround()

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

test('an allowed host that does not answer is no denial, whatever way it was asked for', async () => {
  // Nobody listens on port 1.
  const { path } = await broker({ pins: { 'a.test': '127.0.0.1:1' } })
  const head = 'HTTP/1.1\r\nHost: a.test\r\n\r\n'
  for (const answer of [
    await ask(path, 'proxy', `CONNECT a.test:443 ${head}`),
    await ask(path, 'proxy', `GET http://a.test/ ${head}`),
    await ask(path, 'alias a.test 80', `GET / ${head}`),
  ]) {
    expect(answer).toMatch(/^HTTP\/1.1 502 Orangery could not reach a\.test:\d+: ECONNREFUSED/)
    expect(answer).toContain('X-Orangery: failed')
  }
  // TLS alert "internal error", where a denial is "access denied".
  expect(await ask(path, 'alias a.test 443', Buffer.from([0x16, 3, 1]))).toBe('\x15\x03\x03\0\x02\x02\x50')
})
