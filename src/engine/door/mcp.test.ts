import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openDoor, type Answered, type Asked, type Listener, type Waiting } from './index.ts'
import { McpServer } from './mcp.ts'

let scope: AsyncDisposableStack
let folder: string
let heard: { readonly asked: Asked; readonly waiting: Waiting }[]
let answers: (Answered | 'waits')[]
beforeEach(async () => {
  scope = new AsyncDisposableStack()
  const base = await realpath(await mkdtemp(join(tmpdir(), 'orangery-mcp-')))
  scope.defer(() => rm(base, { recursive: true, force: true }))
  folder = join(base, 'door')
  heard = []
  answers = []
})
afterEach(() => scope.disposeAsync())

const shown = {
  level: 'readonly' as const,
  files: 'read-only' as const,
  hosts: ['a.test:443'],
  network: { mode: 'restricted' as const, allowed: ['a.test:443'], denied: ['b.test'] },
  refused: [{ host: 'a.test', why: 'not in the list of allowed hosts' }],
  requests: [{ to: 'network' as const, hosts: [], status: 'denied' as const, message: 'not now' }],
}
const listener: Listener = {
  async ask(asked, waiting) {
    heard.push({ asked, waiting })
    const answer = answers.shift() ?? { status: 'open', message: 'later' }
    if (answer !== 'waits') return answer
    waiting.began()
    if (!waiting.signal.aborted) await once(waiting.signal, 'abort')
    return { status: 'open', message: 'later' }
  },
  show: () => shown,
}
async function opened() {
  const door = scope.use(await openDoor(folder, { version: '1.2.3', shownAt: folder }))
  await door.furnish()
  door.listen(listener)
  return door
}

/** The client others build on, started the way the file in the door tells. */
async function connected(): Promise<Client> {
  const config = JSON.parse(await readFile(join(folder, 'mcp.json'), 'utf8')) as {
    mcpServers: Record<string, { command: string; args: string[] }>
  }
  const client = new Client({ name: 'test', version: '1' })
  const { command = '', args = [] } = config.mcpServers['orangery'] ?? {}
  await client.connect(new StdioClientTransport({ command, args }))
  scope.defer(() => client.close())
  return client
}
const ask = (client: Client, input: Record<string, unknown>, options = {}) =>
  client.callTool({ name: 'request_boundary', arguments: input }, undefined, options)

test('a client of the protocol finds the tools, asks, and gets the answer with the person’s words', async () => {
  await opened()
  const client = await connected()
  expect(client.getServerVersion()).toMatchObject({ name: 'orangery', version: '1.2.3' })
  await client.ping()
  const { tools } = await client.listTools()
  expect(tools.map(({ name }) => name)).toEqual(['request_boundary', 'show_boundary'])
  expect(tools[0]?.inputSchema).toMatchObject({ required: ['level'] })

  answers = [
    { status: 'approved', message: 'go on' },
    { status: 'denied', message: 'use "the" mirror ü' },
  ]
  const reason = 'tests need it \u001b[2J ü'
  const yes = await ask(client, { level: 'network', hosts: ['a.test:443'], reason })
  expect(yes).toMatchObject({ isError: false, structuredContent: { status: 'approved', message: 'go on' } })
  expect(heard[0]?.asked).toEqual({
    to: 'network',
    hosts: ['a.test:443'],
    reason: 'tests need it  [2J ü',
    waitMs: 50_000,
  })
  const no = await ask(client, { level: 'full', wait_seconds: 7 })
  expect(no.content).toEqual([{ type: 'text', text: 'denied: use "the" mirror ü' }])
  expect(heard[1]?.asked).toMatchObject({ waitMs: 7_000 })
  expect(await client.callTool({ name: 'show_boundary' })).toMatchObject({ structuredContent: shown })

  const wrong = await ask(client, { level: 'root' })
  expect(wrong).toMatchObject({ isError: true, structuredContent: { status: 'refused' } })
  expect(heard).toHaveLength(2)
  await expect(client.callTool({ name: 'rm' })).rejects.toMatchObject({ code: -32602 })
})

test('who waits is told that a person is asked, and can take the question back without losing the others', async () => {
  await opened()
  const client = await connected()
  answers = ['waits', { status: 'approved', message: 'yes' }]
  const cancel = new AbortController()
  const told: (string | undefined)[] = []
  const waiting = ask(
    client,
    { level: 'full' },
    { signal: cancel.signal, onprogress: ({ message }: { message?: string }) => told.push(message) },
  )
  waiting.catch(() => {})
  await vi.waitFor(() => expect(told).toEqual(['a person was asked and has not answered yet']), 10_000)
  expect(await ask(client, { level: 'readwrite' })).toMatchObject({
    structuredContent: { status: 'approved' },
  })
  expect(heard[0]?.waiting.signal.aborted).toBe(false)
  cancel.abort()
  await expect(waiting).rejects.toThrow()
  await vi.waitFor(() => expect(heard[0]?.waiting.signal.aborted).toBe(true), 10_000)
  await client.ping()
})

test('a client that goes, or is killed, leaves no pipe and no question that waits', async () => {
  const door = await opened()
  const pipes = () => readdir(join(folder, 'sessions'))
  answers = ['waits', 'waits', 'waits']
  const client = await connected()
  expect(await pipes()).toHaveLength(2)
  ask(client, { level: 'full' }).catch(() => {})
  await vi.waitFor(() => expect(heard).toHaveLength(1), 10_000)
  await client.close()
  await vi.waitFor(async () => expect(await pipes()).toEqual([]), 10_000)
  expect(heard[0]?.waiting.signal.aborted).toBe(true)

  const server = spawn('sh', [join(folder, 'bin', 'orangery-ask'), 'mcp'], { detached: true })
  const call = { name: 'request_boundary', arguments: { level: 'full' } }
  server.stdin.write(request(1, 'initialize', { protocolVersion: '2025-11-25' }))
  server.stdin.write(request(2, 'tools/call', call))
  await vi.waitFor(() => expect(heard).toHaveLength(2), 10_000)
  process.kill(-(server.pid as number), 'SIGKILL')
  await vi.waitFor(async () => expect(await pipes()).toEqual([]), 10_000)
  expect(heard[1]?.waiting.signal.aborted).toBe(true)

  ask(await connected(), { level: 'full' }).catch(() => {})
  await vi.waitFor(() => expect(heard).toHaveLength(3), 10_000)
  await door[Symbol.asyncDispose]()
  expect(heard[2]?.waiting.signal.aborted).toBe(true)
})

test('no more servers than a few, and none for who pours in and does not read', async () => {
  await opened()
  const script = join(folder, 'bin', 'orangery-ask')
  const start = () => {
    const server = spawn('sh', [script, 'mcp'])
    scope.defer(() => void server.kill('SIGKILL'))
    server.stdin.on('error', () => {})
    return server
  }
  const count = async () => (await readdir(join(folder, 'sessions'))).length / 2
  const pourer = start()
  await vi.waitFor(async () => expect(await count()).toBe(1), 10_000)
  const others = Array.from({ length: 7 }, start)
  await vi.waitFor(async () => expect(await count()).toBe(8), 10_000)
  const ninth = start()
  let said = ''
  ninth.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
  expect(await once(ninth, 'exit')).toEqual([75, null])
  expect(said).toBe('refused: too many MCP servers at once\n')
  for (const other of others) other.stdin.end()
  await vi.waitFor(async () => expect(await count()).toBe(1), 10_000)

  pourer.stdin.write(request(0, 'initialize', { protocolVersion: '2025-11-25' }))
  for (let id = 1; id <= 2_000; id++) pourer.stdin.write(request(id, 'tools/list'))
  await vi.waitFor(async () => expect(await count()).toBe(0), 10_000)
})

const request = (id: unknown, method: string, params?: unknown): string =>
  `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`

test.each([
  ['what is no JSON', '{"jsonrpc"', null, -32700],
  ['a bare word', '"hello"', null, -32600],
  ['null', 'null', null, -32600],
  ['a batch', `[${request(1, 'ping').trim()}]`, null, -32600],
  ['another JSON-RPC', '{"id":3,"method":"ping"}', 3, -32600],
  ['an id that is none', '{"jsonrpc":"2.0","id":{},"method":"ping"}', null, -32600],
  ['a method that is none', request(4, 'tools/burn'), 4, -32601],
  ['a tool that is none', request(5, 'tools/call', { name: 'burn' }), 5, -32602],
  ['a call without a name', request(6, 'tools/call', {}), 6, -32602],
  [
    'arguments that are no object',
    request(7, 'tools/call', { name: 'show_boundary', arguments: 7 }),
    7,
    -32602,
  ],
  ['a beginning without a version', request(8, 'initialize', {}), 8, -32602],
])('%s is answered with an error of JSON-RPC', async (_, line, id, code) => {
  const said: unknown[] = []
  using server = new McpServer(listener, '1', (text) => said.push(JSON.parse(text)))
  server.receive(request(0, 'initialize', { protocolVersion: '2024-11-05' }))
  server.receive(line)
  await vi.waitFor(() => expect(said).toHaveLength(2))
  expect(said).toContainEqual(
    expect.objectContaining({
      result: expect.objectContaining({ protocolVersion: '2024-11-05' }) as unknown,
    }),
  )
  expect(said).toContainEqual({ jsonrpc: '2.0', id, error: { code, message: expect.any(String) as string } })
})

test('nothing but a ping is answered before the beginning, and an unknown version by the newest', async () => {
  const said: { id: number; result?: { protocolVersion?: string }; error?: { code: number } }[] = []
  using server = new McpServer(listener, '1', (text) => said.push(JSON.parse(text) as (typeof said)[0]))
  server.receive(request(1, 'tools/list'))
  server.receive(request(2, 'ping'))
  server.receive(request(3, 'initialize', { protocolVersion: '1999-01-01' }))
  server.receive('{"jsonrpc":"2.0","method":"notifications/initialized"}')
  server.receive('{"jsonrpc":"2.0","id":9,"result":{}}')
  await vi.waitFor(() => expect(said).toHaveLength(3))
  const by = new Map(said.map((message) => [message.id, message]))
  expect(by.get(1)?.error?.code).toBe(-32600)
  expect(by.get(2)?.result).toEqual({})
  expect(by.get(3)?.result?.protocolVersion).toBe('2025-11-25')
})
