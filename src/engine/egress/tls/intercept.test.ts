import { once } from 'node:events'
import { createServer } from 'node:https'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { connect as tlsConnect, type ConnectionOptions, type TLSSocket } from 'node:tls'
import { expect, test } from 'vitest'
import { makeAuthority, type Authority } from './authority.ts'
import { interceptedNames, type CredentialGrant } from '../rules/credentials.ts'
import { parseOutputs } from '../rules/policy.ts'
import { readAll, readSome, useGround, type Setup } from '../testing/ground.ts'

const { broker, defer, listen, open, tunnel } = useGround()

const secret = { hosts: ['api.test'], header: 'Authorization', value: 'Bearer s3cret' }
const request = (host: string, path = '/') =>
  `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: mine\r\n\r\n`

/** The outside world: a server that proves its names by an authority of its own, and what it was asked. */
async function outside() {
  const world = await makeAuthority(['api.test', 'web.test'])
  const asked: IncomingMessage[] = []
  const server = createServer(
    { SNICallback: (name, give) => give(null, world.contextFor(name)) },
    (incoming, response) => {
      asked.push(incoming)
      response.end(`to ${incoming.headers.host ?? ''}`)
    },
  )
  server.on('upgrade', (incoming, socket) => {
    asked.push(incoming)
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    socket.pipe(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  defer(() => (server.close(), server.closeAllConnections()))
  const { port } = server.address() as AddressInfo
  const pins = { 'api.test': `127.0.0.1:${port}`, 'web.test': `127.0.0.1:${port}` }
  return { world, asked, pins, server }
}

type World = Awaited<ReturnType<typeof outside>>
async function sandbox({ pins, world }: World, credential: CredentialGrant, trusts = true) {
  const names = interceptedNames([credential])
  const authority = names.length === 0 ? null : await makeAuthority(names)
  const authorities = trusts ? [world.certificate] : []
  const setup = await broker({ pins }, { credentials: [credential], authority, authorities })
  return { ...setup, authority }
}

async function shake({ path }: Setup, host: string, options: ConnectionOptions): Promise<TLSSocket> {
  const socket = await tunnel(path, `${host}:443`)
  const tls = tlsConnect({ socket, servername: host, ...options })
  await once(tls, 'secureConnect')
  return tls
}
const issuer = (tls: TLSSocket) => tls.getPeerX509Certificate()?.issuer
const pemOf = (authority: Authority | null) => authority?.certificate ?? ''

test('where the user allowed it a secret goes into TLS to its own host, and to no other', async () => {
  const world = await outside()
  const setup = await sandbox(world, { ...secret, intercept: true })
  const own = await shake(setup, 'api.test', {
    ca: pemOf(setup.authority),
    ALPNProtocols: ['h2', 'http/1.1'],
  })
  expect(own.alpnProtocol).toBe('http/1.1')
  for (const path of ['/first', '/second']) {
    own.write(request('api.test', path))
    expect(await readSome(own, (text) => text.includes('to api.test'))).toContain('200 OK')
  }
  // The other host's own certificate arrives, so nobody stands between.
  const other = await shake(setup, 'web.test', { ca: world.world.certificate })
  other.write(request('web.test'))
  expect(await readSome(other, (text) => text.includes('to web.test'))).toContain('200 OK')
  expect(world.asked.map(({ url, headers }) => [url, headers.authorization])).toEqual([
    ['/first', 'Bearer s3cret'],
    ['/second', 'Bearer s3cret'],
    ['/', 'mine'],
  ])
  const [first] = setup.decisions
  expect(first?.why).toContain('its TLS is opened for a secret')
  expect(setup.decisions.at(-1)?.why).not.toContain('opened')
})

test('without that word no TLS is opened, whatever secret belongs to the host', async () => {
  const world = await outside()
  const setup = await sandbox(world, secret)
  const tls = await shake(setup, 'api.test', { ca: world.world.certificate })
  tls.write(request('api.test'))
  await readSome(tls, (text) => text.includes('to api.test'))
  expect(world.asked.map(({ headers }) => headers.authorization)).toEqual(['mine'])
})

test('a server that cannot prove its name gets neither the secret nor the request', async () => {
  const world = await outside()
  const setup = await sandbox(world, { ...secret, intercept: true }, false)
  const tls = await shake(setup, 'api.test', { ca: pemOf(setup.authority) })
  tls.write(request('api.test'))
  expect(await readSome(tls, (text) => text.includes('TLS failed'))).toContain('502 Orangery could not reach')
  expect(world.asked).toEqual([])
})

test('inside opened TLS the host is still the one that was allowed', async () => {
  const world = await outside()
  const setup = await sandbox(world, { ...secret, intercept: true })
  const tls = await shake(setup, 'api.test', { ca: pemOf(setup.authority) })
  tls.write(request('web.test'))
  expect(await readSome(tls, (text) => text.includes('web.test'))).toContain('403 Orangery')
  expect(world.asked).toEqual([])
})

test('a web socket in opened TLS carries both ways', async () => {
  const world = await outside()
  const setup = await sandbox(world, { ...secret, intercept: true })
  const tls = await shake(setup, 'api.test', { ca: pemOf(setup.authority) })
  tls.write('GET / HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  expect(await readSome(tls, (text) => text.endsWith('\r\n\r\n'))).toMatch(/^HTTP\/1.1 101 /)
  tls.write('ping')
  expect(await readSome(tls, (text) => text.length >= 4)).toBe('ping')
  expect(world.asked[0]?.headers.authorization).toBe('Bearer s3cret')
})

test('a program that only speaks HTTP/2, or does not trust the authority, is refused and nothing is sent', async () => {
  const world = await outside()
  const setup = await sandbox(world, { ...secret, intercept: true })
  for (const options of [
    { ca: pemOf(setup.authority), ALPNProtocols: ['h2'] },
    { ca: world.world.certificate },
  ]) {
    await expect(shake(setup, 'api.test', options)).rejects.toThrow()
  }
  expect(world.asked).toEqual([])
  const refused = () => setup.decisions.filter(({ why }) => why.includes('the program refused our TLS'))
  await expect.poll(refused).toHaveLength(2)
})

test("an authority's word counts for its own hosts only, even with its key stolen", async () => {
  const authority = await makeAuthority(interceptedNames([{ ...secret, intercept: true }]))
  const server = createServer({ SNICallback: (name, give) => give(null, authority.contextFor(name)) })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  defer(() => (server.close(), server.closeAllConnections()))
  const { port } = server.address() as AddressInfo
  const believes = async (servername: string) => {
    const tls = tlsConnect({ host: '127.0.0.1', port, servername, ca: authority.certificate })
    defer(() => tls.destroy())
    return once(tls, 'secureConnect').then(
      () => issuer(tls)?.includes('Orangery'),
      () => false,
    )
  }
  expect(await believes('api.test')).toBe(true)
  expect(await believes('web.test')).toBe(false)
})

test('a program that begins TLS and never goes on is dropped', async () => {
  const recorder = await listen()
  const begun = tlsConnect({ host: '127.0.0.1', port: recorder.port, servername: 'api.test' })
  begun.on('error', () => {})
  await expect.poll(() => recorder.seen.length).toBeGreaterThan(0)
  begun.destroy()
  const upstream = await listen()
  const authority = await makeAuthority(['api.test'])
  const { path } = await broker(
    { pins: { 'api.test': `127.0.0.1:${upstream.port}` } },
    { credentials: [{ ...secret, intercept: true }], authority, caps: { handshakeMs: 100 } },
  )
  const socket = await open(path, 'alias api.test 443')
  socket.write(Buffer.concat(recorder.seen))
  // What comes first is our side of the handshake.
  expect((await readAll(socket))[0]).toBe(0x16)
  expect(upstream.seen).toEqual([])
})

test('what narrowing cuts inside TLS that is opened is broken off on both sides', async () => {
  const world = await outside()
  const { pins } = world
  let ended = 0
  world.server.removeAllListeners('request').on('request', (incoming: IncomingMessage) => {
    incoming.socket.once('close', () => ended++)
    world.asked.push(incoming)
  })
  const setup = await sandbox({ ...world, pins }, { ...secret, intercept: true })
  for (const turn of [1, 2]) {
    setup.broker.setPolicy(parseOutputs({ pins }))
    const tls = await shake(setup, 'api.test', { ca: pemOf(setup.authority) })
    tls.on('error', () => {})
    tls.write(request('api.test'))
    await expect.poll(() => world.asked.length).toBe(turn)
    setup.broker.setPolicy(parseOutputs({}))
    expect((await readAll(tls)).toString()).toBe('')
    await expect.poll(() => ended).toBe(turn)
  }
})
