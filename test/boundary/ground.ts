import { once } from 'node:events'
import { mkdir, mkdtemp, realpath, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach } from 'vitest'
import type { ConfigFile } from '../../src/shared/config.ts'
import type { BoundaryState } from '../../src/shared/escalation.ts'
import type { EventBody } from '../../src/shared/events.ts'
import { createEngine, type Engine } from '../../src/engine/index.ts'
import { processesWith, waitUntil } from '../dispatch/harness.ts'
import { removeTree } from '../dispatch/removeTree.ts'

export let base: string
export let project: string
export let engine: Engine
let outside: Server
export let port: number
export const requests: string[] = []
const formerConfigHome = process.env['XDG_CONFIG_HOME']

/** An engine with a config of its own, and a server outside, for each test of a file. */
export function useGround(): void {
  beforeEach(async () => {
    base = await realpath(await mkdtemp(join(tmpdir(), 'orangery-boundary-')))
    project = join(base, 'project')
    await mkdir(project)
    await mkdir(join(base, 'config', 'orangery'), { recursive: true })
    await writeFile(join(project, 'old.txt'), 'old\n')
    process.env['XDG_CONFIG_HOME'] = join(base, 'config')
    engine = await createEngine({ dataDir: join(base, 'data'), host: 'command-line' })
    requests.length = 0
    outside = createServer((request, response) => {
      requests.push(request.url ?? '')
      response.end('from outside\n')
    })
    outside.listen(0, '127.0.0.1')
    await once(outside, 'listening')
    port = (outside.address() as AddressInfo).port
  })
  afterEach(async () => {
    outside.close()
    outside.closeAllConnections()
    await engine.close()
    await waitUntil(
      'supervisors are gone',
      async () => (await processesWith(join(base, 'data'))).length === 0,
    )
    await removeTree(base)
    if (formerConfigHome === undefined) delete process.env['XDG_CONFIG_HOME']
    else process.env['XDG_CONFIG_HOME'] = formerConfigHome
  })
}

export const call = () => engine.client
export const user = (config: ConfigFile) =>
  writeFile(join(base, 'config', 'orangery', 'config.json'), JSON.stringify(config))

export async function spawn(script: string, spec: object | null = null, more: object = {}): Promise<string> {
  const { id } = await call().call('dispatch.spawn', {
    command: ['sh', '-c', script],
    roots: [project],
    ...(spec === null ? {} : { sandbox_spec: JSON.stringify(spec) }),
    ...more,
  })
  return id
}
export async function output(id: string): Promise<string> {
  let text = ''
  for await (const { data } of call().open('dispatch.output', { id, follow: false })) {
    text += Buffer.from(data, 'base64').toString()
  }
  return text
}
export const says = (id: string, word: string) =>
  waitUntil(`it says ${word}`, async () => (await output(id).catch(() => '')).includes(word), 60_000)
export async function ended(id: string) {
  await waitUntil(
    'it ends',
    async () => (await call().call('dispatch.get', { id })).ended_at !== null,
    60_000,
  )
  return call().call('dispatch.get', { id })
}
export async function events(id: string): Promise<EventBody[]> {
  const found: EventBody[] = []
  for await (const { event } of call().open('dispatch.events', { id, follow: false })) found.push(event)
  return found
}
export async function openRequest(
  id: string,
  source?: BoundaryState['requests'][number]['source'],
): Promise<BoundaryState['requests'][number]> {
  let found: BoundaryState['requests'][number] | undefined
  await waitUntil(
    'a request is open',
    async () => {
      const { requests: known } = await call().call('boundary.show', { id })
      found = known.find((each) => each.status === 'open' && (source ?? each.source) === each.source)
      return found !== undefined
    },
    60_000,
  )
  return found!
}

// It looks before it writes: a write that is denied would ask by itself.

export const gated = () => ({
  boundary: 'readwrite',
  outputs: { mode: 'restricted', pins: { 'registry.test:8080': `127.0.0.1:${port}` } },
})
