import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'

const orangery = resolve(import.meta.dirname, '../../bin/orangery')
let dir: string
let port: number
const requests: string[] = []
const web = createServer((request, response) => {
  requests.push(`${request.headers.host ?? ''}${request.url ?? ''}`)
  response.end('from outside\n')
})

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'egress-chain-'))
  await mkdir(join(dir, 'project'))
  web.listen(0, '127.0.0.1')
  await once(web, 'listening')
  port = (web.address() as AddressInfo).port
})
afterAll(async () => {
  web.close()
  web.closeAllConnections()
  await rm(dir, { recursive: true, force: true })
})

type Ran = { code: number; stdout: string; stderr: string }
function run(args: readonly string[]): Promise<Ran> {
  const env = { ...process.env, ORANGERY_DATA_DIR: join(dir, 'data') }
  return new Promise((done) => {
    execFile(orangery, args, { cwd: dir, env }, (error, stdout, stderr) => {
      done({ code: error === null ? 0 : Number(error.code), stdout, stderr })
    })
  })
}
const project = () => ['run', '--dir', join(dir, 'project')]

test('a run reaches the host it was allowed, by proxy and without, and no other; the record says so', async () => {
  const summary = join(dir, 'summary.json')
  const script = [
    'curl -sS http://test.example/proxied',
    'curl -sS --noproxy "*" http://test.example/alias',
    'curl -sS http://other.example/',
    'curl -sS --noproxy "*" --max-time 5 http://other.example/ 2>&1',
    `curl -sS --noproxy "*" --max-time 5 http://127.0.0.1:${port}/ 2>&1`,
    `curl -sS http://127.0.0.1:${port}/ --noproxy "" `,
  ].join('; ')
  const pin = `test.example=127.0.0.1:${port}`
  const options = ['--outputs', 'restricted', '--allow-host', pin, '--summary', summary]
  const ran = await run([...project(), ...options, '--', 'sh', '-c', script])
  expect(ran.stdout.split('\n').slice(0, 2)).toEqual(['from outside', 'from outside'])
  expect(ran.stdout).toContain('Orangery does not let this sandbox reach other.example:80')
  expect(ran.stdout).toMatch(/Could not resolve host: other.example/)
  expect(requests).toEqual(['test.example/proxied', 'test.example/alias'])
  const { sandbox_effective: effective, id } = JSON.parse(await readFile(summary, 'utf8')) as {
    id: string
    sandbox_effective: { network: unknown }
  }
  expect(effective.network).toMatchObject({
    allowed: [{ host: 'test.example', connections: 2 }],
    denied: [{ host: 'other.example' }, { host: '127.0.0.1' }],
  })
  const events = await run(['dispatch', 'events', id, '--json'])
  const decided = (JSON.parse(events.stdout) as { event: { type: string } }[])
    .map(({ event }) => event)
    .filter(({ type }) => type === 'EgressDecided')
  expect(decided).toHaveLength(4)
  expect(decided[0]).toMatchObject({ host: 'test.example', port: 80, allowed: true })
})

test('without a word about the network nothing gets out (control: the same command with the host allowed)', async () => {
  requests.length = 0
  const command = ['--', 'curl', '-sS', '--max-time', '5', 'http://test.example/none']
  expect((await run([...project(), ...command])).code).not.toBe(0)
  expect((await run([...project(), '--outputs', 'none', ...command])).code).not.toBe(0)
  expect(requests).toEqual([])
  const allowed = ['--allow-host', `test.example=127.0.0.1:${port}`]
  expect(await run([...project(), ...allowed, ...command])).toMatchObject({
    code: 0,
    stdout: 'from outside\n',
  })
  expect(requests).toEqual(['test.example/none'])
})
