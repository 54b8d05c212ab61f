import { createHash, randomBytes } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { aliasesFor } from './rules/aliases.ts'
import { parseOutputs } from './rules/policy.ts'
import { readAll, readSome, useGround } from './testing/ground.ts'

const { ask, broker, echo, listen, open, tunnel } = useGround()

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

test('a server that greets and hangs up is seen to hang up', async () => {
  const upstream = await listen((socket) => socket.end('421 busy\r\n'))
  const { path } = await broker({ pins: { 'a.test': `127.0.0.1:${upstream.port}` } })
  expect((await readAll(await open(path, 'alias a.test 25'))).toString()).toBe('421 busy\r\n')
})

const socksTo = (type: number, address: Buffer, port: number, command = 1) =>
  Buffer.concat([Buffer.from([5, 1, 0, 5, command, 0, type]), address, Buffer.from([port >> 8, port & 255])])
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

test('SOCKS4 is refused in its own words, and the host it named is on record', async () => {
  const upstream = await echo()
  const { path, decisions } = await broker({ pins: { 'a.test': `127.0.0.1:${upstream.port}` } })
  const request = (address: string, rest: string) =>
    Buffer.concat([Buffer.from([4, 1, 1, 187]), Buffer.from(address, 'hex'), Buffer.from(rest, 'latin1')])
  const refusal = '\0\x5b\0\0\0\0\0\0'
  expect(await ask(path, 'proxy', request('00000001', 'me\0a.test\0'))).toBe(refusal)
  expect(await ask(path, 'proxy', request('7f000001', '\0'))).toBe(refusal)
  expect(await ask(path, 'proxy', request('00000001', '\0bad name\0'))).toBe(refusal)
  expect(decisions.map(({ host, port, allowed }) => [host, port, allowed])).toEqual([
    ['a.test', 443, false],
    ['127.0.0.1', 443, false],
    ['(not a host)', null, false],
  ])
  expect(upstream.connections).toBe(0)
})

test('the socket is for its owner only and gone after close', async () => {
  const { path, broker: started } = await broker({})
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  await started.close()
  await expect(stat(path)).rejects.toThrowError('ENOENT')
})

test('who resolved a name by itself and asks a proxy for the address gets to the host, and is refused by its name', async () => {
  const upstream = await echo()
  const outputs = {
    mode: 'restricted' as const,
    allow: ['a.test:443'],
    pins: { 'a.test:443': `127.0.0.1:${upstream.port}` },
  }
  const { path, decisions } = await broker(outputs)
  const [alias] = aliasesFor(parseOutputs(outputs))
  const address = Buffer.from((alias?.address ?? '').split('.').map(Number))
  const socket = await open(path, 'proxy')
  socket.write(socksTo(1, address, 443))
  expect((await readSome(socket, (text) => text.length >= 12)).slice(0, 4)).toBe('\x05\0\x05\0')
  const other = await open(path, 'proxy')
  other.write(socksTo(1, address, 8443))
  expect((await readAll(other)).subarray(0, 4)).toEqual(Buffer.from([5, 0, 5, 2]))
  await tunnel(path, `${alias?.address}:443`)
  expect(decisions.map(({ host, port, allowed }) => [host, port, allowed])).toEqual([
    ['a.test', 443, true],
    ['a.test', 8443, false],
    ['a.test', 443, true],
  ])
})
