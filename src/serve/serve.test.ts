import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync, readFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import type { Handlers } from '../shared/api.ts'
import { connectClient, type Channel } from '../shared/wire/index.ts'
import { serve, type Serving } from './index.ts'

let folder: string
let serving: Serving

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'orangery-serve-'))
  mkdirSync(join(folder, 'window', 'assets'), { recursive: true })
  writeFileSync(join(folder, 'window', 'index.html'), '<title>the window</title>')
  writeFileSync(join(folder, 'window', 'assets', 'a.js'), 'let a')
  writeFileSync(join(folder, 'secret.txt'), 'secret')
  const handlers = {
    'host.info': async () => ({
      version: '1',
      data_dir: folder,
      platform: 'linux',
      home: '/',
      host: 'browser',
    }),
    'dispatch.list': async (_input: unknown, caller: { by: string }) => [caller.by],
  } as unknown as Handlers
  serving = await serve({ engine: { handlers }, assets: join(folder, 'window') })
})
afterEach(async () => {
  await serving.close()
  rmSync(folder, { recursive: true, force: true })
})

type Answer = { status: number; headers: Record<string, string | string[] | undefined>; body: string }
function get(path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asking = request({ host: '127.0.0.1', port: serving.port, path, method, headers }, (answer) => {
      let body = ''
      answer.setEncoding('utf8').on('data', (chunk: string) => (body += chunk))
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body }))
    })
    asking.on('error', reject).end()
  })
}
const pathOf = (url: string) => url.slice(url.indexOf('/', 8))
async function enter(): Promise<string> {
  const { headers } = await get(pathOf(serving.url))
  return String(headers['set-cookie']).split(';')[0] ?? ''
}
function upgrade(headers: Record<string, string>): Promise<WebSocket | number> {
  return new Promise((resolve) => {
    const socket = new WebSocket(`ws://127.0.0.1:${serving.port}/wire`, { headers })
    socket.on('open', () => resolve(socket))
    socket.on('unexpected-response', (_request, response) => resolve(response.statusCode ?? 0))
    socket.on('error', () => {})
  })
}
const origin = () => `http://127.0.0.1:${serving.port}`

test('without the token there is nothing but a locked page', async () => {
  for (const path of ['/', '/index.html', '/assets/a.js', '/enter', '/enter?token=guess', '/nothing']) {
    const { status, body } = await get(path)
    expect([path, status]).toEqual([path, 401])
    expect(body).toContain('locked')
    expect(body).not.toContain('the window')
  }
})

test('the token opens once and becomes a cookie no script and no other site can use', async () => {
  const first = await get(pathOf(serving.url))
  expect(first.status).toBe(200)
  const cookie = String(first.headers['set-cookie'])
  expect(cookie).toMatch(/; HttpOnly; SameSite=Strict/)
  expect((await get(pathOf(serving.url))).status).toBe(401)
  const page = await get('/', { cookie: cookie.split(';')[0] ?? '' })
  expect([page.status, page.body]).toEqual([200, '<title>the window</title>'])
})

test('the token lies in a file only its owner can read, and the next one replaces it', async () => {
  expect(statSync(serving.tokenFile).mode & 0o777).toBe(0o600)
  const first = readFileSync(serving.tokenFile, 'utf8').trim()
  expect(serving.url).toContain(first)
  await enter()
  const second = readFileSync(serving.tokenFile, 'utf8').trim()
  expect(second).not.toBe(first)
  expect((await get(`/enter?token=${second}`)).status).toBe(200)
  await serving.close()
  expect(() => statSync(serving.tokenFile)).toThrow('ENOENT')
})

test('a name that was pointed at this machine is not answered', async () => {
  const cookie = await enter()
  expect((await get('/', { cookie, host: `localhost:${serving.port}` })).status).toBe(200)
  for (const host of [
    'evil.example',
    `evil.example:${serving.port}`,
    '127.0.0.1',
    `127.0.0.1:${serving.port}.evil.example`,
  ]) {
    expect([host, (await get('/', { cookie, host })).status]).toEqual([host, 421])
  }
})

test('nothing outside the built window can be read', async () => {
  const cookie = await enter()
  expect((await get('/assets/a.js', { cookie })).body).toBe('let a')
  for (const path of [
    '/../secret.txt',
    '/..%2fsecret.txt',
    '/assets/../../secret.txt',
    '//secret.txt',
    '/assets/%2e%2e/%2e%2e/secret.txt',
  ]) {
    expect([path, (await get(path, { cookie })).status]).toEqual([path, 404])
  }
  expect((await get('/', { cookie }, 'POST')).status).toBe(405)
})

test('every answer carries the policy that lets no foreign script run', async () => {
  const cookie = await enter()
  for (const path of ['/', '/assets/a.js', '/nothing', '/enter']) {
    const { headers } = await get(path, { cookie })
    expect(headers['content-security-policy']).toContain("script-src 'self'")
    expect(headers['content-security-policy']).not.toContain("script-src 'self' 'unsafe")
    expect(headers['x-content-type-options']).toBe('nosniff')
  }
})

test('the wire opens only with cookie, own origin and right host', async () => {
  const cookie = await enter()
  expect(await upgrade({ origin: origin() })).toBe(403)
  expect(await upgrade({ cookie })).toBe(403)
  expect(await upgrade({ cookie, origin: 'http://evil.example' })).toBe(403)
  expect(await upgrade({ cookie, origin: 'null' })).toBe(403)
  expect(
    await upgrade({
      cookie,
      origin: `http://evil.example:${serving.port}`,
      host: `evil.example:${serving.port}`,
    }),
  ).toBe(403)
  expect(await upgrade({ cookie: `orangery-${serving.port}=guess`, origin: origin() })).toBe(403)
  const socket = await upgrade({ cookie, origin: origin() })
  expect(socket).toBeInstanceOf(WebSocket)
  ;(socket as WebSocket).close()
})

test('the contract is spoken over the wire', async () => {
  const socket = (await upgrade({ cookie: await enter(), origin: origin() })) as WebSocket
  const channel: Channel = {
    send: (text) => socket.send(text),
    onMessage: (listener) => socket.on('message', (data) => listener(data.toString())),
    onClose: (listener) => socket.on('close', listener),
    close: () => socket.close(),
  }
  const client = connectClient(channel)
  expect(await client.call('dispatch.list', {})).toHaveLength(1)
  const failing = client.call('host.info', {})
  await expect(failing).resolves.toMatchObject({ version: '1' })
  client.close()
})

test('bytes that are no message close the wire', async () => {
  const socket = (await upgrade({ cookie: await enter(), origin: origin() })) as WebSocket
  const closed = new Promise((resolve) => socket.on('close', resolve))
  socket.send(Buffer.from([1, 2, 3]), { binary: true })
  await closed
})

test('a port in use and a window that was not built are said in words', async () => {
  const engine = { handlers: { 'host.info': async () => ({ data_dir: folder }) } as unknown as Handlers }
  await expect(serve({ engine, port: serving.port, assets: join(folder, 'window') })).rejects.toMatchObject({
    kind: 'cannot_create',
    message: `port ${serving.port}: already in use`,
  })
  await expect(serve({ engine, assets: join(folder, 'none') })).rejects.toMatchObject({
    code: 'serve.not_built',
  })
})
