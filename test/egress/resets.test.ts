import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import { proxyPort } from '../../src/engine/base/sandbox.ts'
import { parseOutputs, type BrokerOptions } from '../../src/engine/egress/index.ts'
import { makeCell, type Cell } from './harness.ts'

type Tell = NonNullable<BrokerOptions['tell']>
const wasCut = /^orangery: s\.test:\d+ was not reached: outputs are none$/

const cleanup: (() => void)[] = []
afterEach(() => {
  for (const step of cleanup.splice(0)) step()
})

/** Answers the first word of whoever comes. */
async function serve(answer: (socket: Socket, word: string) => void): Promise<string> {
  const sockets: Socket[] = []
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.push(socket)
    socket.on('error', () => {})
    socket.once('data', (word) => answer(socket, word.toString('latin1')))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanup.push(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Says something, reads on, and prints what it read and how that ended. */
const probe = (host: string, port: number, words: readonly string[], after = '') => `import socket
s = socket.create_connection((${JSON.stringify(host)}, ${port}), 10)
s.settimeout(10)
got = b""
try:
    for word in ${JSON.stringify(words)}:
        s.sendall(word.encode())
        if word.startswith("CONNECT"): s.recv(1000)
    ${after}
    while True:
        part = s.recv(65536)
        if not part: break
        got += part
        print("read", flush=True)
    how = "end"
except ConnectionResetError: how = "reset"
except TimeoutError: how = "nothing"
print(got.strip()[-7:].decode(), how)`

const plain = (path: string) => `GET ${path} HTTP/1.1\r\nHost: s.test\r\n\r\n`
const proxied = (path: string) => `GET http://s.test${path} HTTP/1.1\r\nHost: s.test\r\n\r\n`
const connect = 'CONNECT s.test:5432 HTTP/1.1\r\nHost: s.test\r\n\r\n'
const heads: Readonly<Record<string, string>> = {
  '/length': 'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n',
  '/chunks': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n',
  '/close': 'HTTP/1.0 200 OK\r\n\r\n',
}
const headFor = (word: string) => heads[/(\/[a-z]+) HTTP/.exec(word)?.[1] ?? ''] ?? ''
const ways: readonly (readonly [what: string, host: string, port: number, words: readonly string[]])[] = [
  ...Object.keys(heads).flatMap((path) => [
    [`${path} by name`, 's.test', 80, [plain(path)]] as const,
    [`${path} by proxy`, '127.0.0.1', proxyPort, [proxied(path)]] as const,
    [`${path} in a tunnel`, '127.0.0.1', proxyPort, [connect, plain(path)]] as const,
  ]),
  ['bytes by name', 's.test', 5432, ['\0']],
  ['bytes in a tunnel', '127.0.0.1', proxyPort, [connect, '\0']],
]
const python = (cell: Cell, script: string) => cell.run(['python3', '-c', script], { proxied: false })
const lastLine = ({ stdout, stderr }: { stdout: string; stderr: string }) =>
  stdout.trimEnd().split('\n').at(-1) ?? stderr

// Accepted by the broker itself, and carried to it by a relay that cannot pass listeners on.
const relays = [{ ipc: true }, { ipc: false }]

test.for(relays)(
  'a server that resets in the middle resets the program too, and is no end of what it sent, with %o',
  async (options) => {
    const pin = await serve((socket, word) => {
      socket.write(`${headFor(word)}partial`)
      setTimeout(() => socket.resetAndDestroy(), 300)
    })
    await using cell = await makeCell({ pins: { 's.test': pin } }, options)
    const seen = await Promise.all(
      ways.map(async ([what, ...rest]) => [what, lastLine(await python(cell, probe(...rest)))]),
    )
    expect(seen).toEqual(ways.map(([what]) => [what, 'partial reset']))
  },
)

test.for(relays)(
  'a server that ends, and a program that ends its own half first, see an end, with %o',
  async (options) => {
    const pin = await serve((socket, word) => {
      socket.write(`${headFor(word).replace('1000', '7').replace('100\r\n', '7\r\n')}partial`)
      setTimeout(() => socket.end(word.includes('/chunks') ? '\r\n0\r\nx: partial\r\n\r\n' : ''), 300)
    })
    await using cell = await makeCell({ pins: { 's.test': pin } }, options)
    const ended = ways.map(async ([what, ...rest]) => [
      what,
      lastLine(await python(cell, probe(...rest, 's.shutdown(socket.SHUT_WR)'))),
    ])
    expect(await Promise.all(ended)).toEqual(ways.map(([what]) => [what, 'partial end']))
  },
)

test.for(relays)('what narrowing cuts is reset, and is no end of a file, with %o', async (options) => {
  const pin = await serve((socket, word) => socket.write(`${headFor(word)}partial`))
  const told: string[] = []
  const tell: Tell = async (_, line) => {
    await delay(150)
    told.push(running.some(({ text }) => text().includes('reset')) ? 'too late' : line)
    await delay(150)
  }
  await using cell = await makeCell({ pins: { 's.test': pin } }, { ...options, tell })
  const running = ways.map(([what, ...rest]) => {
    const child = cell.start(['python3', '-c', probe(...rest)])
    let text = ''
    child.stdout?.on('data', (chunk: Buffer) => (text += chunk.toString()))
    return { what, ended: once(child, 'close'), text: () => text }
  })
  await expect
    .poll(() => running.every(({ text }) => text().includes('read')), { timeout: 20_000 })
    .toBe(true)
  cell.broker.setPolicy(parseOutputs({}))
  await Promise.all(running.map(({ ended }) => ended))
  expect(running.map(({ what, text }) => [what, text().trim().split('\n').at(-1)])).toEqual(
    ways.map(([what]) => [what, 'partial reset']),
  )
  // By a relay it is not known whose connection it is.
  const lines = options.ipc ? ways.map(() => expect.stringMatching(wasCut) as string) : []
  expect(told).toEqual(lines)
})

test('what began as TLS with a server that speaks none is told so, on its stderr and in TLS', async () => {
  const pin = await serve((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'))
  const told: string[] = []
  const tell: Tell = async (_, line) => void told.push(line)
  await using cell = await makeCell({ pins: { 's.test': pin } }, { tell })
  const script = `import socket, ssl
s = socket.create_connection(("s.test", 443), 10)
try: ssl.create_default_context().wrap_socket(s, server_hostname="s.test")
except ssl.SSLError as error: print(error.reason)`
  expect(lastLine(await python(cell, script))).toMatch(/ALERT_ACCESS_DENIED/)
  expect(told).toEqual([
    'orangery: s.test:443 was not reached: the server does not answer in TLS what began as TLS',
  ])
})

test('an upload that narrowing cuts, or whose program breaks off, is a reset for the server too, and no end of a file', async () => {
  const ends: string[] = []
  const pin = await serve((socket) => {
    socket.on('end', () => ends.push('end')).on('error', () => ends.push('reset'))
  })
  await using cell = await makeCell({ pins: { 's.test': pin } })
  const script = (last: string) => `import socket, struct, sys, time
s = socket.create_connection(("s.test", 5432), 10)
s.sendall(b"\\0" * 100000)
print("sent", flush=True)
${last}`
  const broken =
    's.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))\ntime.sleep(0.3)\ns.close()'
  await python(cell, script(broken))
  await expect.poll(() => ends).toEqual(['reset'])
  const child = cell.start(['python3', '-c', script('time.sleep(20)')])
  cleanup.push(() => child.kill('SIGKILL'))
  if (child.stdout !== null) await once(child.stdout, 'data')
  await delay(300)
  cell.broker.setPolicy(parseOutputs({}))
  await expect.poll(() => ends).toEqual(['reset', 'reset'])
})

test.for(relays)(
  'a program at the address of a host that is down is reset, whether it speaks or not, with %o',
  async (options) => {
    await using cell = await makeCell({ pins: { 's.test': '127.0.0.1:1' } }, options)
    for (const words of [['\0'], []])
      expect(lastLine(await python(cell, probe('s.test', 5432, words)))).toBe(' reset')
  },
)
