import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { createServer as createSecure } from 'node:tls'
import { describe, expect, test } from 'vitest'
import { makeAuthority } from '../tls/authority.ts'
import { parseOutputs } from '../rules/policy.ts'
import { readUntil } from '../line/reading.ts'
import { parseRequest } from './socks.ts'
import { hello, readAll, readSome, useGround } from '../testing/ground.ts'
import { deadlineOf } from './dial.ts'
import { proxiesOf, proxyFor, showProxy } from './upstream.ts'

const { ask, broker, defer, echo, listen, open, tunnel } = useGround()

/** A company's proxy: leads every name to one server, and notes what it was asked. */
async function companyProxy(to: number, refused: string | null = null, answer = 502) {
  const asked: string[] = []
  const hosts: (string | undefined)[] = []
  const note = (line: string, authorization: string | undefined) =>
    asked.push(`${line} ${authorization ?? '-'}`)
  const server = createServer((request, response) => {
    note(`${request.method ?? ''} ${request.url ?? ''}`, request.headers['proxy-authorization'])
    hosts.push(request.headers.host)
    response.setHeader('Connection', 'close')
    if (refused !== null && (request.url ?? '').startsWith(refused)) response.statusCode = answer
    response.end('by the proxy')
  })
  server.on('connect', (request, socket, head) => {
    note(`CONNECT ${request.url ?? ''}`, request.headers['proxy-authorization'])
    if (refused !== null && `http://${request.url ?? ''}`.startsWith(refused))
      return void socket.end('HTTP/1.1 403 Not here\r\n\r\n')
    const upstream = connect(to, '127.0.0.1')
    upstream.on('error', () => socket.destroy())
    socket.on('error', () => upstream.destroy())
    socket.write('HTTP/1.1 200 Fine\r\n\r\n')
    upstream.write(head)
    socket.pipe(upstream).pipe(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  defer(() => (server.close(), server.closeAllConnections()))
  const { port } = server.address() as AddressInfo
  return { asked, hosts, port, server }
}
const behind = (port: number, resolve = false) => {
  const address = `http://ada:l%40ce@127.0.0.1:${port}`
  return proxiesOf({ HTTPS_PROXY: address, HTTP_PROXY: address }, resolve).proxies
}
/** A public address that nothing ever dials: the proxies here lead everything to a server of their own. */
const known = async () => ['2606:4700::1', '1.1.1.1']
const login = `Basic ${Buffer.from('ada:l@ce').toString('base64')}`
const nowhere = () => Promise.reject(Object.assign(new Error('no such host'), { code: 'ENOTFOUND' }))
const outputs = {
  mode: 'restricted' as const,
  allow: ['a.example', 'localhost', 'metadata.internal', '127.0.0.1'],
}

describe('behind a proxy of the user', () => {
  test.each([
    { way: 'to the address that was checked here', resolve: false, resolver: known, asked: '1.1.1.1' },
    { way: 'by name, where the user lets it resolve', resolve: true, resolver: nowhere, asked: 'a.example' },
  ])('tunnels, aliases and requests go out through it $way, and carry both ways', async (given) => {
    const upstream = await echo()
    const proxy = await companyProxy(upstream.port)
    const proxies = behind(proxy.port, given.resolve)
    const { path, decisions } = await broker(outputs, { proxies, resolver: given.resolver })
    const ways = [await tunnel(path, 'a.example:443'), await open(path, 'alias a.example 443')]
    for (const socket of ways) {
      socket.write('\0ping')
      expect(await readSome(socket, (text) => text.length >= 5)).toBe('\0ping')
    }
    const head = 'HTTP/1.1\r\nHost: a.example\r\nProxy-Authorization: Basic mine\r\nConnection: close\r\n\r\n'
    expect(await ask(path, 'proxy', `GET http://a.example/x?y ${head}`)).toContain('by the proxy')
    expect(await ask(path, 'alias a.example 80', `GET /z ${head}`)).toContain('by the proxy')
    expect(await ask(path, 'proxy', 'GET http://a.example/old HTTP/1.0\r\n\r\n')).toContain('by the proxy')
    expect(proxy.asked).toEqual([
      `CONNECT ${given.asked}:443 ${login}`,
      `CONNECT ${given.asked}:443 ${login}`,
      `GET http://${given.asked}/x?y ${login}`,
      `GET http://${given.asked}/z ${login}`,
      `GET http://${given.asked}/old ${login}`,
    ])
    expect(proxy.hosts).toEqual(['a.example', 'a.example', 'a.example'])
    expect(new Set(decisions.map(({ host, allowed }) => `${host} ${allowed}`))).toEqual(
      new Set(['a.example true']),
    )
  })

  test('a name that leads elsewhere when the proxy looks it up is never handed to it, and one unknown here is refused', async () => {
    const oracle = await listen(hello('this machine'))
    const proxy = await companyProxy(oracle.port)
    const answers = [['1.1.1.1'], ['127.0.0.1'], ['10.0.0.1', '1.1.1.1']]
    const resolver = async () => answers.shift() ?? nowhere()
    const { path, decisions } = await broker(outputs, { proxies: behind(proxy.port), resolver })
    const get = () => ask(path, 'proxy', 'GET http://a.example/ HTTP/1.0\r\nHost: a.example\r\n\r\n')
    expect(await get()).toContain('by the proxy')
    expect(await get()).toContain(
      '403 Orangery does not let this sandbox reach a.example:80: it leads to 127',
    )
    // Of several only one that was checked is asked for.
    expect(await get()).toContain('by the proxy')
    expect(await get()).toContain('sandboxProxyResolves')
    expect(proxy.asked).toEqual(Array.from({ length: 2 }, () => `GET http://1.1.1.1/ ${login}`))
    expect(decisions.at(-1)).toMatchObject({ allowed: false, grantable: false })
  })

  test('of a host with several addresses the next is asked for where the proxy has no way to one', async () => {
    const upstream = await echo()
    const proxy = await companyProxy(upstream.port, 'http://1.1.1.1')
    const resolver = async () => ['1.1.1.1', '1.0.0.1']
    const { path } = await broker(outputs, { proxies: behind(proxy.port), resolver })
    await tunnel(path, 'a.example:443')
    expect(proxy.asked).toEqual([`CONNECT 1.1.1.1:443 ${login}`, `CONNECT 1.0.0.1:443 ${login}`])
  })

  test.each([502, 503, 504])(
    'a plain request that a proxy answers with %i goes on to the next address, and is one decision',
    async (status) => {
      const proxy = await companyProxy(1, 'http://1.1.1.1', status)
      const resolver = async () => ['1.1.1.1', '1.0.0.1']
      const { path, decisions } = await broker(outputs, { proxies: behind(proxy.port), resolver })
      const get = 'GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n'
      expect(await ask(path, 'proxy', get)).toMatch(/^HTTP\/1.1 200 /)
      expect(proxy.asked).toEqual([`GET http://1.1.1.1/x ${login}`, `GET http://1.0.0.1/x ${login}`])
      expect(decisions).toHaveLength(1)
    },
  )

  test('it does not where none is left, nor with what might have been done already, nor to one that was denied meanwhile', async () => {
    const proxy = await companyProxy(1, 'http://')
    const resolver = async () => ['1.1.1.1', '1.0.0.1']
    const running = await broker(outputs, { proxies: behind(proxy.port), resolver })
    const request = (method: string, rest = '') =>
      ask(
        running.path,
        'proxy',
        `${method} http://a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n${rest}`,
      )
    expect(await request('GET', '\r\n')).toMatch(/^HTTP\/1.1 502 /)
    expect(proxy.asked.splice(0)).toHaveLength(2)
    expect(await request('POST', 'Content-Length: 1\r\n\r\nx')).toMatch(/^HTTP\/1.1 502 /)
    expect(await request('GET', 'Content-Length: 1\r\n\r\nx')).toMatch(/^HTTP\/1.1 502 /)
    expect(proxy.asked.splice(0)).toHaveLength(2)
    proxy.server.once('request', () =>
      running.broker.setPolicy(parseOutputs({ ...outputs, deny: ['1.0.0.1'] })),
    )
    await request('GET', '\r\n')
    expect(proxy.asked).toHaveLength(1)
  })

  test('an address that gives no answer leaves time for those after it, and the last has all that is left', () => {
    const start = Date.now()
    expect(deadlineOf(start + 20_000, false)).toBeLessThan(start + 10_000)
    expect(deadlineOf(start + 10, false)).toBe(start + 10)
    expect(deadlineOf(start + 20_000, true)).toBe(start + 20_000)
  })

  test('an address that is denied later takes the tunnel to it along, behind a proxy too', async () => {
    const upstream = await echo()
    const proxy = await companyProxy(upstream.port)
    const running = await broker(outputs, { proxies: behind(proxy.port), resolver: known })
    const socket = await tunnel(running.path, 'a.example:443')
    running.broker.setPolicy(parseOutputs({ ...outputs, deny: ['1.1.1.1'] }))
    await readAll(socket)
    expect(running.decisions.at(-1)).toMatchObject({ host: 'a.example', allowed: false })
  })

  test('plain HTTP in a tunnel is still held to the host that was allowed', async () => {
    const upstream = await listen(hello('reached'))
    const proxy = await companyProxy(upstream.port)
    const { path } = await broker(outputs, { proxies: behind(proxy.port), resolver: known })
    const socket = await tunnel(path, 'a.example:8080')
    socket.write('GET / HTTP/1.1\r\nHost: other.example\r\n\r\n')
    expect((await readAll(socket)).toString()).toContain('403 Orangery')
    expect(upstream.seen).toEqual([])
  })

  test('what the policy denies, and what leads to this machine or a local network, is not even asked for where it resolves', async () => {
    const upstream = await echo()
    const proxy = await companyProxy(upstream.port)
    // Which of several the proxy takes nobody here knows.
    const resolver = async (host: string) => (host === 'a.example' ? ['1.1.1.1', '10.0.0.1'] : nowhere())
    const { path } = await broker(outputs, { proxies: behind(proxy.port, true), resolver })
    for (const host of [
      'other.example',
      'a.example',
      'localhost',
      'metadata.internal',
      '127.0.0.1',
      '0x7f.1',
    ]) {
      const answer = await ask(path, 'proxy', `CONNECT ${host}:443 HTTP/1.1\r\nHost: x\r\n\r\n`)
      expect(answer, host).toContain('403 Orangery')
    }
    expect(proxy.asked).toEqual([])
  })

  test('pins lead past it', async () => {
    const upstream = await echo()
    const proxy = await companyProxy(1)
    const pins = { 'pin.example': `127.0.0.1:${upstream.port}`, 'net.example': '127.0.0.0/8' }
    const proxies = behind(proxy.port)
    const { path } = await broker({ ...outputs, pins }, { proxies, resolver: async () => ['127.0.0.1'] })
    await tunnel(path, 'pin.example:443')
    await tunnel(path, `net.example:${upstream.port}`)
    expect(upstream.connections).toBe(2)
    expect(proxy.asked).toEqual([])
  })

  test('its refusal, or its absence, is told by name', async () => {
    const proxy = await companyProxy(1, 'http://')
    const { path } = await broker(outputs, { proxies: behind(proxy.port), resolver: known })
    const refused = await ask(path, 'proxy', 'CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n')
    expect(refused).toContain(
      `502 Orangery could not reach a.example:443: the proxy http://127.0.0.1:${proxy.port} answered 403`,
    )
    expect(refused).not.toContain('l@ce')
    proxy.server.close()
    proxy.server.closeAllConnections()
    const gone = await ask(path, 'proxy', 'CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n')
    expect(gone).toContain(`the proxy http://127.0.0.1:${proxy.port} (ECONNREFUSED)`)
  })

  test('a proxy that is itself spoken to over TLS must prove its name', async () => {
    const upstream = await echo()
    const plain = await companyProxy(upstream.port)
    const world = await makeAuthority(['proxy.example'])
    const server = createSecure(
      { SNICallback: (name, give) => give(null, world.contextFor(name)) },
      (socket) => {
        const inner = connect(plain.port, '127.0.0.1')
        inner.on('error', () => socket.destroy())
        socket.on('error', () => inner.destroy())
        socket.pipe(inner).pipe(socket)
      },
    ).listen(0, '127.0.0.1')
    await once(server, 'listening')
    defer(() => server.close())
    const { port } = server.address() as AddressInfo
    const { proxies } = proxiesOf({ https_proxy: `https://proxy.example:${port}` })
    const resolver = async (host: string) => (host === 'proxy.example' ? ['127.0.0.1'] : known())
    const trusted = await broker(outputs, { proxies, resolver, authorities: [world.certificate] })
    const socket = await tunnel(trusted.path, 'a.example:443')
    socket.write('\0ping')
    expect(await readSome(socket, (text) => text.length >= 5)).toBe('\0ping')
    await trusted.broker.close()
    const doubted = await broker(outputs, { proxies, resolver })
    const answer = await ask(doubted.path, 'proxy', 'CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n')
    expect(answer).toContain('502 Orangery could not reach')
    expect(plain.asked).toHaveLength(1)
  })
})

/** A SOCKS proxy that wants a login, leads every name to one server, and notes what it was asked. */
async function socksProxy(to: number, refusal = 0) {
  const asked: string[] = []
  const oracle = await listen(async (client) => {
    const read = (size: number) =>
      readUntil(client, (bytes) => (bytes.length < size ? null : { value: bytes, used: bytes.length }), 5000)
    await read(4)
    client.write(Buffer.from([5, 2]))
    const login = (await read(9)) ?? Buffer.alloc(0)
    if (!login.equals(Buffer.from('\x01\x03ada\x04l@ce', 'latin1')))
      return void client.end(Buffer.from([1, 1]))
    client.write(Buffer.from([1, 0]))
    const wanted = await readUntil(client, parseRequest, 5000)
    asked.push(wanted?.kind === 'connect' ? `${wanted.target.host}:${wanted.target.port}` : 'nonsense')
    client.write(Buffer.from([5, refusal, 0, 1, 0, 0, 0, 0, 0, 0]))
    if (refusal !== 0) return void client.end()
    const upstream = connect(to, '127.0.0.1')
    client.pipe(upstream).pipe(client)
  })
  const through = (login: string, resolve = false) =>
    proxiesOf({ ALL_PROXY: `socks5h://${login}@127.0.0.1:${oracle.port}` }, resolve).proxies
  return { asked, port: oracle.port, through }
}

describe('behind a SOCKS proxy of the user', () => {
  test.each([
    { way: 'to the address that was checked here', resolve: false, resolver: known, asked: '1.1.1.1' },
    { way: 'by name, where the user lets it resolve', resolve: true, resolver: nowhere, asked: 'a.example' },
  ])('tunnels and plain requests go out through it $way, with its login', async (given) => {
    const upstream = await listen(hello('reached'))
    const proxy = await socksProxy(upstream.port)
    const proxies = proxy.through('ada:l%40ce', given.resolve)
    const { path } = await broker(outputs, { proxies, resolver: given.resolver })
    const head = 'HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n'
    expect(await ask(path, 'proxy', `GET http://a.example/x ${head}`)).toContain('reached')
    expect(await ask(path, 'alias a.example 80', `GET /y ${head}`)).toContain('reached')
    const socket = await tunnel(path, 'a.example:443')
    socket.write('\0')
    expect((await readAll(socket)).toString()).toContain('reached')
    expect(proxy.asked).toEqual([80, 80, 443].map((port) => `${given.asked}:${port}`))
    expect(upstream.seen[0]?.toString()).toMatch(/^GET \/x /)
  })

  test('its refusal, of the host or of the login, is told by name and without the login', async () => {
    const proxy = await socksProxy(1, 2)
    const connectTo = 'CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n'
    const welcome = await broker(outputs, { proxies: proxy.through('ada:l%40ce'), resolver: known })
    const where = `the proxy socks5://127.0.0.1:${proxy.port}`
    expect(await ask(welcome.path, 'proxy', connectTo)).toContain(`${where} does not allow it`)
    await welcome.broker.close()
    const unknown = await broker(outputs, { proxies: proxy.through('ada:wrong'), resolver: known })
    const answer = await ask(unknown.path, 'proxy', connectTo)
    expect(answer).toContain(`${where} does not take the login`)
    expect(answer).not.toContain('wrong')
  })
})

describe('the environment', () => {
  test('names proxies in either case, with or without a scheme; what is not understood is named', () => {
    const { proxies, ignored } = proxiesOf({ https_proxy: 'proxy.corp:3128', HTTP_PROXY: 'socks4://x:1' })
    expect(proxies?.tunnel).toEqual({ host: 'proxy.corp', port: 3128, kind: 'http', login: null })
    expect(proxies?.plain).toBeNull()
    expect(ignored).toEqual(['HTTP_PROXY'])
    expect(proxiesOf({})).toEqual({ proxies: null, ignored: [] })
    expect(proxiesOf({ HTTPS_PROXY: '', ALL_PROXY: 'http://all:1' }).proxies?.plain?.host).toBe('all')
    const secret = proxiesOf({ HTTPS_PROXY: 'https://ada:secret@proxy.corp' }).proxies?.tunnel
    expect(secret && showProxy(secret)).toBe('https://proxy.corp:443')
    const socks = proxiesOf({ ALL_PROXY: 'socks5h://ada:l%40ce@Proxy.Corp' }).proxies?.tunnel
    const login = { user: 'ada', password: 'l@ce' }
    expect(socks).toEqual({ host: 'proxy.corp', port: 1080, kind: 'socks5', login })
    expect(proxiesOf({ HTTPS_PROXY: 'http://ada:%zz@proxy.corp' }).ignored).toEqual(['HTTPS_PROXY'])
  })

  test.each([
    ['*', 'a.example', true],
    ['example', 'a.example', true],
    ['.example', 'a.example', true],
    ['*.example', 'a.example', true],
    ['a.example:443', 'a.example', true],
    ['a.example:80', 'a.example', false],
    ['ample', 'a.example', false],
    ['10.0.0.0/8', '10.1.2.3', true],
    ['10.0.0.0/8', 'a.example', false],
    ['10.1.2.3', '10.1.2.3', true],
    [' other.test , a.example', 'a.example', true],
    ['nonsense//', 'a.example', false],
  ])('NO_PROXY=%s and %s: reached directly is %s', (exception, host, direct) => {
    const { proxies } = proxiesOf({ HTTPS_PROXY: 'http://p:1', NO_PROXY: exception })
    expect(proxyFor(proxies, { host, port: 443 }, 'tunnel') === null).toBe(direct)
  })
})
