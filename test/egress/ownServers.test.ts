import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'

let port: number
const web = createServer((_, response) => response.end('outside\n'))
beforeAll(async () => {
  web.listen(0, '127.0.0.1')
  await once(web, 'listening')
  port = (web.address() as AddressInfo).port
})
afterAll(() => {
  web.close()
  web.closeAllConnections()
})

/** Waits until the last of the ports that are only heard at stands, then serves at its own on every address. */
const program = (reached: readonly number[], own: readonly number[]) => `
import errno, json, socket, time, urllib.request
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
def get(port):
    return direct.open("http://web.test:%d/" % port, timeout=10).read().decode().strip()
def stands(port):
    try:
        socket.create_connection(("web.test", port)).close()
        return True
    except OSError:
        return False
while not all(map(stands, [993, *${JSON.stringify(reached)}])): time.sleep(0.05)
time.sleep(1)
def serve(port, *addresses):
    for address in addresses:
        server = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((address, port))
            server.listen()
        except OSError as error:
            return errno.errorcode[error.errno]
        finally:
            server.close()
    return "served"
print(json.dumps({
    "reached": {port: get(port) for port in ${JSON.stringify(reached)}},
    "everywhere": {port: serve(port, "0.0.0.0", "::") for port in ${JSON.stringify(own)}},
    "here": {port: serve(port, "127.0.0.1", "::1") for port in ${JSON.stringify(own)}},
}))`

async function tryPorts(rule: string, reached: readonly number[], own: readonly number[]): Promise<unknown> {
  using place = new Place()
  const pin = `${rule}=127.0.0.1:${port}`
  const command = ['python3', '-c', program(reached, own)]
  const { stdout, stderr } = await place.orangery('run', '-q', '--allow-host', pin, '--', ...command)
  expect(stdout, stderr).not.toBe('')
  return JSON.parse(stdout)
}
const each = (ports: readonly number[], what: string) =>
  Object.fromEntries(ports.map((one) => [String(one), what]))

const development = [3000, 5000, 8000, 8080, 8888, 9000]
const databases = [3306, 5432, 6379]

test('a host allowed at one port takes no other from servers of the agent, which could not have those below 1024 anyway', async () => {
  const own = [...development, ...databases]
  const served = { ...each(own, 'served'), ...each([443, 81, 1023], 'EACCES') }
  expect(await tryPorts('web.test:443', [443], [...own, 443, 81, 1023])).toEqual({
    reached: { 443: 'outside' },
    everywhere: served,
    here: served,
  })
})

test('a host allowed at every port is reached by name at those of databases, and leaves the agent those of development servers', async () => {
  const reached = [80, 443, 8443, ...databases]
  expect(await tryPorts('web.test', reached, [...development, ...databases])).toEqual({
    reached: each(reached, 'outside'),
    everywhere: { ...each(development, 'served'), ...each(databases, 'EADDRINUSE') },
    here: each([...development, ...databases], 'served'),
  })
})

test('a port that development servers use is taken where a rule names it, but not from one that binds loopback only', async () => {
  expect(await tryPorts('web.test:8080', [8080], [3000, 8080])).toEqual({
    reached: { 8080: 'outside' },
    everywhere: { 3000: 'served', 8080: 'EADDRINUSE' },
    here: { 3000: 'served', 8080: 'served' },
  })
})

test("the agent's own server is reached by every name and address of its own sandbox, and nobody is asked about it", async () => {
  using place = new Place()
  const served = 'import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=4321, bind="0.0.0.0")'
  const own = ['127.0.0.1', 'localhost', '$(hostname)', '0.0.0.0', '127.0.0.2']
  const script = `echo mine >x; python3 -c '${served}' >/dev/null 2>&1 & until curl -s --noproxy '*' http://127.0.0.1:4321/x >/dev/null; do sleep 0.1; done
    for host in ${own.join(' ')}; do curl -sS http://$host:4321/x; done; "$ORANGERY_ASK" show; kill $!`
  const { stdout, stderr } = await place.orangery('run', '-q', '--', 'sh', '-c', script)
  expect(stdout.split('\n').slice(0, own.length), stderr).toEqual(own.map(() => 'mine'))
  expect(stdout).not.toContain('4321')
})

test("a host that is granted at a port which a server of the agent's has already is on record as not reached by name", async () => {
  using place = new Place()
  const served = 'import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8080, bind="0.0.0.0")'
  const spec = { boundary: 'readwrite', outputs: { pins: { 'web.test:8080': `127.0.0.1:${port}` } } }
  const script = `python3 -c '${served}' >/dev/null 2>&1 & until curl -s http://127.0.0.1:8080/ >/dev/null; do sleep 0.1; done; touch up
    until curl -sf http://web.test:8080/; do sleep 0.2; done; sleep 30`
  const written = ['--sandbox-spec', JSON.stringify(spec)]
  const { stdout, stderr } = await place.orangery('dispatch', 'spawn', ...written, '--', 'sh', '-c', script)
  const id = stdout.trim()
  expect(id, stderr).not.toBe('')
  const events = async () => (await place.orangery('dispatch', 'events', id)).stdout
  // It has its server before it asks for anybody else.
  await expect.poll(events, { timeout: 30_000, interval: 500 }).toContain('web.test:8080 denied')
  await place.orangery('boundary', 'request', id, 'network', '--reason', 'x')
  expect(await place.orangery('boundary', 'approve', id)).toMatchObject({ code: 0 })
  await expect
    .poll(events, { timeout: 30_000, interval: 500 })
    .toMatch(/Note +web\.test:8080: reached through the proxy only; /)
  // The control: that way it is.
  await expect.poll(events, { timeout: 30_000, interval: 500 }).toContain('web.test:8080 allowed')
  await place.orangery('dispatch', 'kill', id)
})
