import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { denyAll } from '../../src/engine/egress/index.ts'
import { makeCell, type Cell } from './harness.ts'

// Programs that know no proxy ask for names. The oracle: the resolver of the machine, which must never be asked.
const heard: string[] = []
const web = createServer((request, response) => {
  heard.push(request.headers.host ?? '')
  response.end('from outside\n')
})
let port: number
beforeAll(async () => {
  web.listen(0, '127.0.0.1')
  await once(web, 'listening')
  port = (web.address() as AddressInfo).port
})
afterAll(() => {
  web.close()
  web.closeAllConnections()
})

const plain = (cell: Cell, script: string) => cell.run(['sh', '-c', script], { proxied: false })
const denials = (cell: Cell) =>
  cell.decisions.filter(({ allowed }) => !allowed).map(({ host, port: at, via }) => [host, at, via])

describe.each([
  { way: 'sockets passed to the broker', ipc: true },
  { way: 'questions carried to it', ipc: false },
])('with $way', ({ ipc }) => {
  test('a name that is not allowed is refused at once to every program that asks for it, and each attempt is an event', async () => {
    const asked: string[] = []
    const resolver = async (host: string) => {
      asked.push(host)
      return ['127.0.0.1']
    }
    await using cell = await makeCell(
      { pins: { 'a.example': `127.0.0.1:${port}` }, deny: ['bad.example'] },
      { ipc, resolver },
    )
    const began = Date.now()
    expect(await plain(cell, 'getent hosts one.example')).toMatchObject({ code: 2, stdout: '' })
    const curl = await plain(cell, 'curl -sS http://two.example/')
    expect(curl.stderr).toContain('Could not resolve host: two.example')
    const python =
      'import socket\ntry: socket.getaddrinfo("three.example", 1)\nexcept socket.gaierror as e: print(e.errno)'
    expect((await cell.run(['python3', '-c', python], { proxied: false })).stdout).toBe('-2\n')
    expect((await plain(cell, 'getent ahosts bad.example')).code).toBe(2)
    expect(denials(cell)).toEqual([
      ['one.example', null, 'name'],
      ['two.example', null, 'name'],
      ['three.example', null, 'name'],
      ['bad.example', null, 'name'],
    ])
    expect(cell.decisions.map(({ grantable }) => grantable)).toEqual([true, true, true, false])
    expect(cell.broker.usage().denied.map(({ connections }) => connections)).toEqual([1, 1, 1, 1])
    expect(Date.now() - began).toBeLessThan(15_000)
    expect((await plain(cell, 'curl -sS http://a.example/')).stdout).toBe('from outside\n')
    expect(asked).toEqual([])
  })
})

test('of very many allowed hosts each is reached by programs that know no proxy, the last as the first', async () => {
  const names = Array.from({ length: 300 }, (_, n) => `h${n}.example`)
  const pins = Object.fromEntries(names.map((name) => [`${name}:80`, `127.0.0.1:${port}`]))
  await using cell = await makeCell({ pins })
  for (const name of ['h0.example', 'h150.example', 'h299.example'])
    expect((await plain(cell, `curl -sS http://${name}/`)).stdout, name).toBe('from outside\n')
})

test('a name below a wildcard, or any name where outputs are open, is reached by programs that know no proxy', async () => {
  const lookup = { resolver: async () => ['203.0.113.9'] }
  await using cell = await makeCell(
    { pins: { '*.wild.example:80': `127.0.0.1:${port}`, 'wild.example:81': `127.0.0.1:${port}` } },
    lookup,
  )
  expect((await plain(cell, 'curl -sS http://any.wild.example/')).stdout).toBe('from outside\n')
  expect((await plain(cell, 'curl -sS http://a.b.wild.example/')).stdout).toBe('from outside\n')
  expect((await plain(cell, 'curl -sS http://notwild.example/')).code).toBe(6)
  await cell.setOutputs({ mode: 'restricted' })
  expect((await plain(cell, 'curl -sS http://any.wild.example/')).code).toBe(6)
  await cell.setOutputs({ mode: 'open', pins: { 'c.example': `127.0.0.1:${port}` } })
  expect((await plain(cell, 'curl -sS http://c.example/')).stdout).toBe('from outside\n')
  const open = await plain(cell, 'curl -sS http://public.example/')
  expect(open.stdout).toContain(
    'Orangery does not let this sandbox reach public.example:80: it leads to 203.0.113.9',
  )
})

test('without its relay, or without its broker, a sandbox reaches less and never more', async () => {
  const pins = { 'a.example:80': `127.0.0.1:${port}`, '*.wild.example:80': `127.0.0.1:${port}` }
  await using cell = await makeCell({ pins })
  const reach = (host: string) => plain(cell, `curl -sS --max-time 10 http://${host}/`)
  expect((await reach('one.wild.example')).stdout).toBe('from outside\n')
  cell.relay.kill('SIGKILL')
  await once(cell.relay, 'exit')
  expect((await reach('a.example')).stdout).toBe('from outside\n')
  expect((await reach('two.wild.example')).code).toBe(6)
  expect((await reach('other.example')).code).toBe(6)
  cell.broker.setPolicy(denyAll)
  const before = heard.length
  for (const host of ['a.example', 'one.wild.example']) expect((await reach(host)).code).not.toBe(0)
  await cell.broker.close()
  expect((await plain(cell, 'getent hosts a.wild.example')).code).toBe(2)
  expect(heard).toHaveLength(before)
})

test('a flood of datagrams, questions and nonsense, leaves the broker answering', async () => {
  await using cell = await makeCell({ pins: { 'a.example': `127.0.0.1:${port}` } })
  const flood = String.raw`import os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(20000):
    name = b"%d" % n
    question = os.urandom(2) + b"\x01\0\0\x01\0\0\0\0\0\0" + bytes([len(name)]) + name + b"\x04evil\0\0\x01\0\x01"
    s.sendto(question if n % 2 else os.urandom(40), ("127.0.0.53", 53))
print("done")`
  expect((await cell.run(['python3', '-c', flood], { proxied: false })).stdout).toBe('done\n')
  expect((await plain(cell, 'curl -sS http://a.example/')).stdout).toBe('from outside\n')
  expect((await plain(cell, 'getent hosts other.example')).code).toBe(2)
  expect(cell.broker.usage().denied.length).toBeLessThanOrEqual(1002)
  expect(cell.decisions.some(({ host }) => /^[0-9]+[.]evil$/.test(host))).toBe(true)
})
