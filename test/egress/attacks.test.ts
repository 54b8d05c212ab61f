import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterEach, describe, expect, test } from 'vitest'
import { proxyPort } from '../../src/engine/base/sandbox.ts'
import { makeCell, type Cell, type Ran } from './harness.ts'

// Every case has an oracle outside (a listener's own count) and a control: the same probe where it must get through.
const execute = promisify(execFile)
const cleanup: (() => void)[] = []
afterEach(() => {
  for (const step of cleanup.splice(0)) step()
})

type Oracle = { port: number; connections: number; bytes: number; sockets: Socket[] }
async function listen(
  host = '0.0.0.0',
  onConnection: (socket: Socket) => void = (s) => s.end('REACHED\n'),
): Promise<Oracle> {
  const oracle: Oracle = { port: 0, connections: 0, bytes: 0, sockets: [] }
  const server = createServer((socket) => {
    oracle.connections++
    oracle.sockets.push(socket)
    socket.on('error', () => {})
    socket.on('data', (chunk) => (oracle.bytes += chunk.length))
    onConnection(socket)
  }).listen(0, host)
  await once(server, 'listening')
  oracle.port = (server.address() as AddressInfo).port
  cleanup.push(() => {
    server.close()
    for (const socket of oracle.sockets) socket.destroy()
  })
  return oracle
}

const python = (cell: Cell, script: string, options = {}): Promise<Ran> =>
  cell.run(['python3', '-c', script], { proxied: false, ...options })
const outside = async (script: string) => (await execute('python3', ['-c', script])).stdout
const ownAddress = () =>
  Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .find(({ internal, family }) => !internal && family === 'IPv4')?.address ?? '127.0.0.1'

describe('around the proxy', () => {
  test('no direct TCP, UDP, DNS, raw or ICMP packet reaches the machine the sandbox runs on', async () => {
    const tcp = await listen()
    const udp = createSocket('udp4').bind(0, '0.0.0.0')
    await once(udp, 'listening')
    let datagrams = 0
    udp.on('message', () => datagrams++)
    cleanup.push(() => udp.close())
    const targets = ['127.0.0.1', ownAddress()]
    const script = `import socket
for host in ${JSON.stringify(targets)}:
    try:
        s = socket.create_connection((host, ${tcp.port}), 2); print("tcp", s.recv(20))
    except OSError as e: print("no tcp")
    try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (host, ${udp.address().port})); print("sent")
    except OSError as e: print("no udp")
`
    const asked: string[] = []
    const resolver = async (host: string) => {
      asked.push(host)
      return ['127.0.0.1']
    }
    await using cell = await makeCell({ mode: 'open' }, { resolver })
    const inside = await python(cell, script)
    expect(inside.stdout).not.toContain('REACHED')
    await new Promise((done) => setTimeout(done, 200))
    expect([tcp.connections, datagrams]).toEqual([0, 0])
    const raw = await python(
      cell,
      `import socket
for kind, proto in ((socket.SOCK_RAW, socket.IPPROTO_ICMP), (socket.SOCK_DGRAM, socket.IPPROTO_ICMP)):
    try: socket.socket(socket.AF_INET, kind, proto).sendto(b"\\x08\\0\\xf7\\xff\\0\\0\\0\\0", ("${ownAddress()}", 0)); print("sent")
    except OSError: print("no icmp")
print("own" if all(a[4][0].startswith("127.") for a in socket.getaddrinfo("example.com", 443)) else "RESOLVED")`,
    )
    // A name leads to the relay; nobody outside is asked for it.
    expect(raw.stdout).toMatch(/own\n$/)
    expect(asked).toEqual([])
    if (ownAddress() !== '127.0.0.1') expect(raw.stdout).toBe('no icmp\nno icmp\nown\n')
    // Control: the same script outside gets through to both listeners.
    expect(await outside(script)).toContain('REACHED')
    await expect.poll(() => datagrams).toBeGreaterThan(0)
    expect(tcp.connections).toBeGreaterThan(0)
  })

  test('names that only look like an allowed one lead nowhere, by proxy or resolver', async () => {
    const oracle = await listen('127.0.0.1')
    await using cell = await makeCell({
      mode: 'restricted',
      pins: { 'example.com': `127.0.0.1:${oracle.port}`, '*.wild.example': `127.0.0.1:${oracle.port}` },
    })
    const lookalikes = [
      'notexample.com',
      'example.com.evil.net',
      'example.co',
      'xexample.com',
      'wild.example',
      'evilwild.example',
      'example.com@evil.net',
      'exаmple.com',
    ]
    for (const name of lookalikes) {
      const ran = await cell.run([
        'curl',
        '-sS',
        '--max-time',
        '5',
        '-p',
        '-x',
        cell.proxy,
        `http://${name}/`,
      ])
      expect(ran.code, name).not.toBe(0)
    }
    expect(oracle.connections).toBe(0)
    for (const name of ['example.com', 'EXAMPLE.com.', 'a.b.wild.example']) {
      await cell.run([
        'curl',
        '-sS',
        '--max-time',
        '5',
        '-p',
        '-x',
        cell.proxy,
        '--http0.9',
        `http://${name}/`,
      ])
    }
    expect(oracle.connections).toBe(3)
  })

  test('an empty list lets nothing out (control: the same probe with the host in it)', async () => {
    const oracle = await listen('127.0.0.1')
    const probe = async (cell: Cell) =>
      (
        await cell.run([
          'curl',
          '-sS',
          '--http0.9',
          '--max-time',
          '5',
          'http://a.example/',
          'http://b.example/',
        ])
      ).stdout
    await using closed = await makeCell({ mode: 'restricted', allow: [] })
    expect(await probe(closed)).not.toContain('REACHED')
    expect(oracle.connections).toBe(0)
    await using open = await makeCell({ pins: { 'a.example': `127.0.0.1:${oracle.port}` } })
    await probe(open)
    expect(oracle.connections).toBe(1)
  })
})

describe.each([
  { way: 'listeners passed to the broker', ipc: true },
  { way: 'connections carried to its socket', ipc: false },
])('with $way', ({ ipc }) => {
  const serve = (socket: Socket) =>
    void socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nREACHED'))

  test('a dead broker means closed', async () => {
    const oracle = await listen('127.0.0.1', serve)
    await using cell = await makeCell({ pins: { 'a.example': `127.0.0.1:${oracle.port}` } }, { ipc })
    const curl = (proxied: boolean) =>
      cell.run(['curl', '-sS', '--max-time', '5', 'http://a.example/'], { proxied })
    expect((await curl(true)).stdout).toBe('REACHED')
    expect((await curl(false)).stdout).toBe('REACHED')
    await cell.broker.close()
    expect((await curl(true)).code).not.toBe(0)
    expect((await curl(false)).code).not.toBe(0)
    expect(oracle.connections).toBe(2)
  })

  test('narrowing cuts a running download and takes the name away; widening brings both back', async () => {
    const oracle = await listen('127.0.0.1', (socket) => {
      const feed = setInterval(() => socket.write('.'), 20)
      socket.once('close', () => clearInterval(feed))
    })
    const pins = { 'a.example:7000': `127.0.0.1:${oracle.port}` }
    await using cell = await makeCell({ pins }, { ipc })
    const script = `import socket,sys
s = socket.create_connection(("a.example", 7000)); s.sendall(b"\\0")
try:
    while s.recv(100): pass
    print("ended")
except OSError: print("cut")
try:
    s = socket.create_connection(("a.example", 7000), 3); s.sendall(b"\\0"); print("OPEN" if s.recv(1) else "closed")
except OSError: print("closed")
sys.stdout.flush(); sys.stdin.readline()
s = socket.create_connection(("a.example", 7000), 3); s.sendall(b"\\0"); print("open", s.recv(1))`
    const child = cell.start(['python3', '-u', '-c', script])
    let said = ''
    child.stdout!.on('data', (chunk: Buffer) => (said += chunk.toString()))
    await expect.poll(() => oracle.bytes).toBe(1)
    await cell.setOutputs({ mode: 'restricted' })
    await expect.poll(() => said).toMatch(/^(ended|cut)\nclosed\n$/)
    await expect.poll(() => oracle.sockets.every(({ destroyed }) => destroyed)).toBe(true)
    await cell.setOutputs({ pins })
    child.stdin!.write('\n')
    await once(child, 'close')
    expect(said).toContain("open b'.'")
  })

  // Where each is carried by a process of its own they cost more, and show the same with fewer.
  const many = ipc ? 10_000 : 3000
  test(`${many} connections, half of them mute, leave the broker serving`, async () => {
    const oracle = await listen('127.0.0.1', serve)
    await using cell = await makeCell(
      { pins: { 'a.example': `127.0.0.1:${oracle.port}` } },
      { ipc, caps: { handshakeMs: 2000 } },
    )
    const script = `import socket
kept = []
for n in range(${many}):
    try:
        s = socket.create_connection(("127.0.0.1", ${proxyPort}), 5)
        if n % 2: s.sendall(b"CONNECT other.example:443 HTTP/1.1\\r\\nHost: other.example\\r\\n\\r\\n")
        kept.append(s)
    except OSError: pass
    if len(kept) > 500: kept.pop(0).close()
print("done")`
    const flood = await python(cell, script, { timeoutMs: 120_000 })
    expect(flood.stdout).toBe('done\n')
    await expect
      .poll(async () => (await cell.run(['curl', '-sS', '--max-time', '5', 'http://a.example/'])).stdout, {
        timeout: 20_000,
      })
      .toBe('REACHED')
    const [denied] = cell.broker.usage().denied
    expect(denied).toMatchObject({ host: 'other.example' })
    expect(denied!.connections).toBeGreaterThan(many * 0.3)
  })

  test('whoever comes when mute connections hold every place is told so, and is on record', async () => {
    const oracle = await listen('127.0.0.1', serve)
    const caps = { connections: 20, handshakeMs: 60_000 }
    await using cell = await makeCell({ pins: { 'a.example': `127.0.0.1:${oracle.port}` } }, { ipc, caps })
    const script = `import socket, subprocess
kept = [socket.create_connection(("127.0.0.1", ${proxyPort}), 5) for n in range(${caps.connections * 2})]
print(subprocess.run(["curl", "-sS", "--max-time", "5", "-x", "127.0.0.1:${proxyPort}", "http://a.example/"], capture_output=True, text=True).stdout)`
    const { stdout } = await python(cell, script)
    expect(stdout).toContain('Orangery')
    expect(stdout).toContain(`more than ${caps.connections * 2} connections at one time`)
    expect(cell.broker.usage().denied).toMatchObject([{ why: expect.stringContaining('more than') }])
    expect(oracle.connections).toBe(0)
  })

  test('a reader that does not read stops the server, not the broker', async () => {
    let accepted = 0
    const oracle = await listen('127.0.0.1', (socket) => {
      const chunk = Buffer.alloc(1 << 20)
      const more = () => {
        while (accepted < 512 && socket.write(chunk)) accepted++
      }
      socket.on('drain', more)
      socket.once('data', more)
    })
    await using cell = await makeCell({ pins: { 'a.example:7000': `127.0.0.1:${oracle.port}` } }, { ipc })
    const child = cell.start([
      'python3',
      '-c',
      'import socket,time\ns=socket.create_connection(("a.example",7000)); s.sendall(b"\\0"); time.sleep(60)',
    ])
    cleanup.push(() => child.kill('SIGKILL'))
    await expect.poll(() => oracle.bytes).toBe(1)
    await new Promise((done) => setTimeout(done, 1000))
    const settled = oracle.sockets[0]!.bytesWritten - oracle.sockets[0]!.writableLength
    await new Promise((done) => setTimeout(done, 500))
    expect(oracle.sockets[0]!.bytesWritten - oracle.sockets[0]!.writableLength).toBe(settled)
    expect(settled).toBeLessThan(64 << 20)
  })
})
