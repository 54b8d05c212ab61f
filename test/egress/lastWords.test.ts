import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { proxyPort } from '../../src/engine/base/sandbox.ts'
import { Bench, waitUntil } from '../dispatch/harness.ts'

type Heard = { bytes: number; text: string; how: 'end' | 'broken' | 'open' }

const cleanup: (() => void)[] = []
afterEach(() => {
  for (const step of cleanup.splice(0)) step()
})

/** Keeps what each connection said and how that ended. */
async function listen(onConnection: (socket: Socket) => void = () => {}) {
  const heard: Heard[] = []
  const sockets: Socket[] = []
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const one: Heard = { bytes: 0, text: '', how: 'open' }
    heard.push(one)
    sockets.push(socket)
    socket.on('error', () => (one.how = 'broken'))
    socket.on('end', () => {
      one.how = 'end'
      socket.end()
    })
    onConnection(socket)
    socket.on('data', (chunk: Buffer) => {
      one.bytes += chunk.length
      if (one.text.length < 1000) one.text += chunk.toString('latin1')
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanup.push(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  const { port } = server.address() as AddressInfo
  const outputs = {
    mode: 'restricted',
    pins: { 'h.test:5432': `127.0.0.1:${port}`, 'h.test:80': `127.0.0.1:${port}` },
  }
  return { heard, sandbox_spec: JSON.stringify({ outputs }) }
}

async function run(bench: Bench, command: readonly [string, ...string[]], sandbox_spec: string) {
  const { id } = await bench.client.call('dispatch.spawn', {
    command: [...command],
    roots: [bench.project],
    sandbox_spec,
  })
  return bench.ended(id)
}

const times = 5
const tunnel = `CONNECT h.test:5432 HTTP/1.1\\r\\nHost: h.test\\r\\n\\r\\n`
const post = 'POST /last HTTP/1.1\\r\\nHost: h.test\\r\\nContent-Length: 4\\r\\n\\r\\nword'
const acts: readonly (readonly [what: string, script: string, said: RegExp])[] = [
  ['by name', 'echo word > /dev/tcp/h.test/5432', /^word\n$/],
  [
    'in a tunnel',
    `exec 3<>/dev/tcp/127.0.0.1/${proxyPort}; printf '${tunnel}' >&3; read -r x <&3; read -r x <&3; printf word >&3`,
    /^word$/,
  ],
  ['as a request', `printf '${post}' > /dev/tcp/h.test/80`, /^POST \/last HTTP\/1\.1\r\n[^]*\r\n\r\nword$/],
]

test.for(acts)('what a command says %s as its last act reaches the server', async ([, script, said]) => {
  const { heard, sandbox_spec } = await listen()
  await using bench = await Bench.create()
  for (let time = 0; time < times; time++) {
    const { status, sandbox_effective } = await run(bench, ['bash', '-c', script], sandbox_spec)
    expect(status).toBe('completed')
    expect(sandbox_effective).toMatchObject({ network: { allowed: [{ host: 'h.test', connections: 1 }] } })
  }
  await waitUntil('every server connection is over', () => heard.every(({ how }) => how !== 'open'))
  expect(heard.map(({ text, how }) => [said.test(text) ? 'whole' : text, how])).toEqual(
    Array.from({ length: times }, () => ['whole', 'end']),
  )
})

test('a large upload that nobody waits for reaches a slow server whole', async () => {
  const bytes = 30_000_000
  const { heard, sandbox_spec } = await listen((socket) => {
    socket.on('data', () => {
      socket.pause()
      setTimeout(() => socket.resume(), 5)
    })
  })
  await using bench = await Bench.create()
  const script = `import socket\ns = socket.create_connection(("h.test", 5432))\ns.sendall(b"\\0" * ${bytes})`
  expect((await run(bench, ['python3', '-c', script], sandbox_spec)).status).toBe('completed')
  await waitUntil('the upload is over', () => heard.every(({ how }) => how !== 'open'), 30_000)
  expect(heard.map(({ bytes: got, how }) => [got, how])).toEqual([[bytes, 'end']])
})

test('a server that reads nothing holds nobody up for ever, and what it did not take is no proper end', async () => {
  const { heard, sandbox_spec } = await listen((socket) => setImmediate(() => socket.pause()))
  await using bench = await Bench.create()
  const script = `import socket
s = socket.create_connection(("h.test", 5432))
s.settimeout(1)
try: s.sendall(b"\\0" * 40_000_000)
except TimeoutError: pass`
  expect((await run(bench, ['python3', '-c', script], sandbox_spec)).status).toBe('completed')
  expect(heard).toHaveLength(1)
  expect(heard[0]?.how).not.toBe('end')
})
