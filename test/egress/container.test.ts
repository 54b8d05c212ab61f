import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { entryCommand } from '../../src/engine/base/entry.ts'
import { nameServer, proxyPort } from '../../src/engine/base/sandbox.ts'
import { parseOutputs, proxyEnvironment, startBroker, type Decided } from '../../src/engine/egress/index.ts'
import { engines, openEngine, type Contents } from '../containers.ts'

/** A root file system with programs, a network of its own, and of the host nothing but the broker's socket. */
function contentsWith(socket: string, nameServers: string, script: string): Contents {
  const [node, ...relay] = entryCommand('relay')
  const inside = '/run/egress.sock'
  const settings = JSON.stringify({ broker: inside, proxyPort, aliases: [] })
  const start = `sleep 600 | "$@" | (read -r ready; sh -c ${JSON.stringify(script)})`
  return {
    network: 'none',
    mounts: [
      { from: '/usr', to: '/usr' },
      ...[node, dirname(relay.at(-1) ?? '')].map((path) => ({ from: path, to: path })),
      { from: socket, to: inside, writable: true },
      { from: nameServers, to: '/etc/resolv.conf' },
    ],
    environment: { ...proxyEnvironment(proxyPort), PATH: '/usr/bin:/bin' },
    command: ['sh', '-c', start, 'sh', node, ...relay, settings],
  }
}

const lan = Object.values(networkInterfaces())
  .flatMap((list) => list ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')?.address

test.for(engines)(
  'a container of %s with nothing but the socket mounted reaches what is allowed, by proxy and by name, and nothing else, and follows every change',
  async (name, { skip }) => {
    const opened = await openEngine(name)
    if (typeof opened === 'string') return skip(opened)
    await using engine = opened
    const requests: string[] = []
    const web = createServer((request, response) => {
      requests.push(`${request.headers.host ?? ''}${request.url ?? ''}`)
      response.end('outside\n')
    }).listen(0, '0.0.0.0')
    await once(web, 'listening')
    const { port } = web.address() as AddressInfo
    const dir = await mkdtemp(join(tmpdir(), 'egress-container-'))
    const socketPath = join(dir, 'b.sock')
    const pinned = (...hosts: string[]) =>
      parseOutputs({ pins: Object.fromEntries(hosts.map((host) => [host, `127.0.0.1:${port}`])) })
    const decisions: Decided[] = []
    const broker = await startBroker({
      socketPath,
      policy: pinned('a.example', '*.wild.example'),
      onDecision: (decided) => decisions.push(decided),
    })
    const nameServers = join(dir, 'resolv.conf')
    await writeFile(nameServers, `nameserver ${nameServer}\n`)
    const get = (host: string, rest = '') => `curl -sS --max-time 5 ${rest} http://${host} 2>&1`
    const plain = "--noproxy '*'"
    const direct = get(`${lan ?? '127.0.0.1'}:${port}/direct`, plain)
    const script = [
      get('a.example/proxied'),
      get('a.example/plain', plain),
      get('any.wild.example/plain', plain),
      get('other.example/'),
      get('other.example/', plain),
      direct,
      'echo first',
      `until ${get('b.example/later', `-f ${plain}`)} >/dev/null; do sleep 0.1; done; echo widened`,
      `while ${get('b.example/last', `-f ${plain}`)} >/dev/null; do sleep 0.1; done; echo narrowed`,
    ].join('; ')
    const contents = contentsWith(socketPath, nameServers, script)
    try {
      await using container = await engine.start(contents)
      await expect.poll(container.text).toContain('first')
      const [proxied, byName, wild, ...others] = container.text().split('\n')
      expect([proxied, byName, wild]).toEqual(['outside', 'outside', 'outside'])
      expect(others[0]).toContain('Orangery does not let this sandbox reach other.example:80')
      expect(others[1]).toContain('Could not resolve host: other.example')
      expect(requests.slice(0, 3)).toEqual(['a.example/proxied', 'a.example/plain', 'any.wild.example/plain'])
      broker.setPolicy(pinned('a.example', 'b.example'))
      await expect.poll(container.text).toContain('widened')
      broker.setPolicy(pinned('a.example'))
      await expect.poll(container.text).toContain('narrowed')
      expect(requests.some((request) => request.includes('/direct'))).toBe(false)
      expect(new Set(requests.slice(3).map((request) => request.split('/')[0]))).toEqual(
        new Set(['b.example']),
      )
      expect(decisions).toContainEqual(
        expect.objectContaining({ host: 'other.example', port: 80, allowed: false }),
      )
      // Control: the same probe in the same container reaches the server where the network is the host's.
      await using control = await engine.start({
        ...contents,
        network: 'host',
        command: ['sh', '-c', direct],
      })
      await expect.poll(control.text).toContain('outside')
      expect(requests.at(-1)).toContain('/direct')
    } finally {
      await broker.close()
      web.close()
      web.closeAllConnections()
      await rm(dir, { recursive: true, force: true })
    }
  },
)
