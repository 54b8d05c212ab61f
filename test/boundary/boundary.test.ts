import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { git } from '../../src/engine/base/git.ts'
import { waitUntil } from '../dispatch/harness.ts'
import {
  base,
  call,
  ended,
  events,
  gated,
  openRequest,
  output,
  port,
  project,
  requests,
  says,
  spawn,
  useGround,
  user,
} from './ground.ts'

useGround()

const tryToWrite = `while ! [ -w . ]; do [ -n "$said" ] || echo refused; said=1; sleep 0.1; done; echo new > new.txt; echo wrote`

test('a running agent that may only read can write once a person has approved, and the change is an event', async () => {
  const id = await spawn(tryToWrite, { boundary: 'readonly' })
  await says(id, 'refused')
  const filed = await call().call('boundary.request', { id, to: 'readwrite', reason: 'it must write' })
  expect(filed.status).toBe('open')
  expect(await call().call('boundary.inbox', {})).toMatchObject([{ id: filed.id, dispatch: id }])
  expect(await output(id)).not.toContain('wrote')
  await call().call('boundary.approve', { id })
  const dispatch = await ended(id)
  expect(dispatch).toMatchObject({ status: 'completed', boundary: 'readwrite' })
  expect(await output(id)).toContain('wrote')
  expect(dispatch.sandbox_effective).toMatchObject({
    access_mode: 'workspace-write',
    boundary_history: [
      { to: 'readonly' },
      { from: 'readonly', to: 'readwrite', by: userInfo().username, why: 'it must write' },
    ],
  })
  const types = (await events(id)).map(({ type }) => type)
  expect(types.indexOf('BoundaryEscalated')).toBeGreaterThan(types.indexOf('BoundaryRequested'))
  // What it wrote is a changeset like any other; the real file is not there.
  expect(dispatch.changeset).toMatchObject({ files: 1 })
  await expect(readFile(join(project, 'new.txt'))).rejects.toThrow()
})

test('a denied request leaves the agent where it is and carries the person’s words to who waits', async () => {
  const id = await spawn(`${tryToWrite}`, { boundary: 'readonly' })
  await says(id, 'refused')
  const waiting = call().call('boundary.request', { id, to: 'readwrite', reason: 'please', wait_s: 60 })
  await openRequest(id, 'user')
  await call().call('boundary.deny', { id, message: 'not today' })
  expect(await waiting).toMatchObject({ status: 'denied', answer: { message: 'not today' } })
  expect(await output(id)).not.toContain('wrote')
  await call().call('dispatch.kill', { id })
  expect((await ended(id)).changeset).toBeNull()
})

const build =
  'until curl -sf --max-time 5 http://registry.test:8080/package; do echo failed; sleep 0.2; done; echo built'
test('a build that needs a host fails, a person approves and saves to the project, the build goes on, and the next run does not ask', async () => {
  const id = await spawn(build, gated())
  const request = await openRequest(id)
  expect(request).toMatchObject({ to: 'network', hosts: ['registry.test:8080'], source: 'broker' })
  await says(id, 'failed')
  expect(requests).toEqual([])
  await call().call('boundary.approve', { id, scope: 'project' })
  const { status, sandbox_effective: effective } = await ended(id)
  expect(status).toBe('completed')
  // What we wrote ourselves meanwhile is no sign of an escape.
  expect(effective).toMatchObject({ violations: [] })
  expect(await output(id)).toContain('built')
  expect(requests).toEqual(['/package'])
  expect(await readFile(join(project, '.orangery.json'), 'utf8')).toContain('registry.test:8080')

  const next = await spawn(build, gated())
  const dispatch = await ended(next)
  expect(dispatch.status).toBe('completed')
  // Not even the first connection failed: it was held for the moment the saved approval took.
  expect(await output(next)).not.toContain('failed')
  const { requests: known } = await call().call('boundary.show', { id: next })
  expect(known).toMatchObject([{ status: 'approved', answer: { way: 'saved' } }])
  expect(dispatch.sandbox_effective).toMatchObject({
    boundary_history: [{ to: 'readwrite' }, { to: 'network', by: expect.stringContaining('(project)') }],
  })
})

test('a saved approval that names a port is the answer to a program that knows no proxy as well', async () => {
  const approved = { agent: 'command', level: 'network' as const, hosts: ['registry.test:8080'] }
  await user({ sandboxApprovedEscalations: [approved] })
  const get =
    'exec 3<>/dev/tcp/registry.test/8080 && printf "GET /direct HTTP/1.0\\r\\n\\r\\n" >&3 && cat <&3'
  const id = await spawn(`bash -c '${get}'`, gated())
  await ended(id)
  expect(await output(id)).toContain('from outside')
  expect(requests).toEqual(['/direct'])
  expect(await call().call('boundary.show', { id })).toMatchObject({
    hosts: ['registry.test:8080'],
    requests: [{ status: 'approved', hosts: ['registry.test:8080'], answer: { way: 'saved' } }],
  })
})

test('with one port of a host approved, a program that knows no proxy is heard at another that the contract names', async () => {
  const approved = { agent: 'command', level: 'network' as const, hosts: ['registry.test:8080'] }
  await user({ sandboxApprovedEscalations: [approved] })
  const outside = `127.0.0.1:${port}`
  const pins = { 'registry.test:8080': outside, 'registry.test:9092': outside }
  const get =
    'exec 3<>/dev/tcp/registry.test/9092 && printf "GET /other HTTP/1.0\\r\\n\\r\\n" >&3 && grep outside <&3'
  const id = await spawn(`until bash -c '${get}'; do sleep 0.2; done`, {
    boundary: 'readwrite',
    outputs: { mode: 'restricted', pins },
  })
  const request = await openRequest(id)
  expect(request).toMatchObject({ hosts: ['registry.test:9092'], source: 'broker' })
  await call().call('boundary.approve', { id, scope: 'once' })
  expect((await ended(id)).status).toBe('completed')
  expect(requests).toEqual(['/other'])
  const { requests: known } = await call().call('boundary.show', { id })
  expect(known[0]).toMatchObject({
    hosts: ['registry.test:8080'],
    answer: { message: expect.stringContaining('Another port') },
  })
  expect(await events(id)).toContainEqual(
    expect.objectContaining({
      type: 'EgressDecided',
      allowed: false,
      why: 'the boundary is network, and this host waits for a yes of its own',
    }),
  )
})

test('with time to answer, a denied connection is held until the person has said yes', async () => {
  await user({ sandboxEscalationWait: 120 })
  const id = await spawn('curl -sf --max-time 100 http://registry.test:8080/held && echo built', gated())
  await openRequest(id)
  await call().call('boundary.approve', { id })
  expect((await ended(id)).status).toBe('completed')
  expect(await output(id)).toContain('built')
  expect(requests).toEqual(['/held'])
})

test('a program whose connection was held reads the words of the person who said no', async () => {
  await user({ sandboxEscalationWait: 120 })
  const curl = 'curl -s --max-time 100 http://need.test/'
  // Asked again, it is answered by the same denial.
  const id = await spawn(`${curl}; sleep 2.5; ${curl}`, null, { phase: 'build' })
  await openRequest(id)
  await call().call('boundary.deny', { id, message: 'use the\r\nmirror' })
  await ended(id)
  const said = (await output(id)).match(/need\.test:80: .*a person said no: use the {2}mirror/g)
  expect(said).toHaveLength(2)
})

test('what an agent prints is never taken for a denial', async () => {
  await user({
    sandboxEscalationPolicy: 'auto',
    sandboxAutoEscalation: { hosts: ['*.test', '*.example'], roots: [base] },
  })
  const lie =
    'curl: (7) Failed to connect to evil.test port 443; EPERM; Read-only file system; network is unreachable'
  const id = await spawn(`echo "${lie}" >&2; echo "${lie}"; exit 7`, null, { phase: 'build' })
  expect((await ended(id)).status).toBe('failed')
  expect(await call().call('boundary.show', { id })).toMatchObject({
    level: 'readwrite',
    requests: [],
    history: [],
  })
  // The control: what the broker sees counts, from the very first instruction on.
  const asking = await call().call('dispatch.spawn', {
    command: ['curl', '-s', 'http://evil.test/'],
    roots: [project],
    phase: 'build',
  })
  await ended(asking.id)
  expect(await call().call('boundary.show', { id: asking.id })).toMatchObject({
    requests: [{ hosts: ['evil.test:80'], source: 'broker', status: 'approved', answer: { way: 'auto' } }],
  })
})

test('a write that the driver denied asks the person, or is answered by a saved yes; words about one ask nobody', async () => {
  const script = 'until echo x 2>/dev/null >made; do sleep 0.1; done; echo wrote'
  const id = await spawn(script, { boundary: 'readonly' })
  const filed = await openRequest(id)
  expect(filed).toMatchObject({ to: 'readwrite', source: 'driver', by: 'driver', hosts: [] })
  expect(filed.why).toBe(`a write was denied: ${join(project, 'made')}`)
  await call().call('boundary.approve', { id, request: filed.id, scope: 'user' })
  const first = await ended(id)
  expect(first).toMatchObject({
    status: 'completed',
    sandbox_effective: {
      violations: [
        {
          kind: 'write_denied',
          detail: expect.stringContaining('made (its boundary is readonly now') as string,
          certain: false,
        },
      ],
    },
  })
  const again = await spawn(script, { boundary: 'readonly' })
  expect((await ended(again)).status).toBe('completed')
  expect(await call().call('boundary.show', { id: again })).toMatchObject({
    requests: [{ source: 'driver', status: 'approved', answer: { way: 'saved' } }],
  })
  const liar = await spawn(`echo "touch: cannot touch '${project}/made': Read-only file system"`, {
    boundary: 'readonly',
  })
  expect(await ended(liar)).toMatchObject({
    sandbox_effective: { violations: [{ kind: 'write_denied', certain: false }] },
  })
  expect((await call().call('boundary.show', { id: liar })).requests).toEqual([])
})

test('of many writes that are denied at once the first gives the request its reason', async () => {
  for (const first of ['f', 'g', 'h']) {
    const id = await spawn(`for n in ${first} 1 2 3 4 5 6 7 8 9; do echo x >$n; done 2>/dev/null; sleep 60`, {
      boundary: 'readonly',
    })
    await openRequest(id)
    const known = async () => (await call().call('boundary.show', { id })).requests
    await waitUntil('all are heard', async () => (await known())[0]?.count === 10, 30_000)
    expect(await known()).toMatchObject([{ why: `a write was denied: ${join(project, first)}` }])
    await call().call('dispatch.kill', { id })
  }
})

test('who speaks to a dispatch that is just starting, or spawns its child, waits until it is there', async () => {
  const id = await spawn('sleep 600', { boundary: 'readonly' })
  const filed = await call().call('boundary.request', { id, to: 'readwrite', reason: 'soon' })
  const [child] = await Promise.all([
    spawn('true', null, { parent: id }),
    call().call('boundary.approve', { id, request: filed.id }),
  ])
  expect((await call().call('boundary.show', { id })).level).toBe('readwrite')
  expect((await ended(child)).status).toBe('completed')
  await call().call('dispatch.kill', { id })
  const types = (await events(id)).map(({ type }) => type)
  expect(types).toContain('BoundaryRequested')
  expect(types).toContain('BoundaryEscalated')
})

test('a plan writes its one file in place and nothing else', async () => {
  const id = await spawn(
    'echo "- [ ] one" > TODO.md && echo planned; echo x > other.txt || echo kept out',
    null,
    {
      phase: 'plan',
    },
  )
  const dispatch = await ended(id)
  expect(await output(id)).toContain('planned')
  expect(await output(id)).toContain('kept out')
  const changeset = await call().call('changeset.get', { id })
  expect(changeset.files.map(({ path }) => path)).toEqual(['TODO.md'])
  expect(dispatch.boundary).toBe('readonly')
})

test('an agent that gives no sign of life is stopped, one that does is not', async () => {
  await user({ agentInactivityTimeout: 2 })
  const silent = await spawn('echo start; sleep 60')
  const lively = await spawn('for i in 1 2 3 4 5 6; do echo $i; sleep 0.7; done')
  const stopped = await ended(silent)
  expect(stopped).toMatchObject({ status: 'timeout', error: expect.stringContaining('no sign of life') })
  expect(stopped.sandbox_effective).toMatchObject({ violations: [{ kind: 'inactivity', certain: true }] })
  expect((await ended(lively)).status).toBe('completed')
})

test.each([0, 1])(
  'a time for signs of life that is set while an agent runs holds for it, at level %i',
  async (level) => {
    const isolation = level === 0 ? 'none' : 'os'
    const id = await spawn('echo begun; sleep 60', { isolation })
    await says(id, 'begun')
    await user({ agentInactivityTimeout: 2 })
    expect((await ended(id)).status).toBe('timeout')
  },
)

test('an agent that was refused a host at once and then falls silent is stopped; one that waits for an answer is not', async () => {
  await user({ agentInactivityTimeout: 2 })
  const refused = await spawn('curl -s -m 3 http://tele.test/ >/dev/null; sleep 60')
  const waiting = await spawn('$ORANGERY_ASK network --host a.test --reason r --wait 5; echo waited')
  expect((await ended(refused)).status).toBe('timeout')
  expect(await ended(waiting)).toMatchObject({ status: 'completed' })
  expect(await output(waiting)).toContain('waited')
})

test.each([
  ['without waiting', ''],
  ['and has waited long enough', '--wait 3'],
])('an agent that asks %s and then falls silent is stopped, though its question is open', async (_, wait) => {
  await user({ agentInactivityTimeout: 2 })
  const id = await spawn(`$ORANGERY_ASK network --host a.test --reason r ${wait}; sleep 60`)
  await says(id, 'has not answered yet')
  expect(await call().call('boundary.inbox', {})).toMatchObject([{ dispatch: id, status: 'open' }])
  expect((await ended(id)).status).toBe('timeout')
})

test('a child in a repository that lies in its parent’s root is denied what the parent’s project denies', async () => {
  const nested = join(project, 'nested')
  await mkdir(nested)
  for (const folder of [project, nested]) await git(['init', '-q', folder])
  const at = `vault.test:${port}`
  const get = `curl -s -m 10 -o /dev/null -w 'code %{http_code}\\n' http://${at}/x`
  const parent = await spawn(`${get}; sleep 60`, {
    boundary: 'network',
    outputs: { mode: 'restricted', pins: { [at]: `127.0.0.1:${port}` } },
  })
  await says(parent, 'code 200')
  const child = () =>
    spawn(get, { outputs: { mode: 'restricted', allow: [at] } }, { parent, roots: [nested] })
  await says(await child(), 'code 200')
  const deny = { sandboxLevels: { readonly: { deniedHosts: ['vault.test'] } } }
  await writeFile(join(project, '.orangery.json'), JSON.stringify(deny))
  await says(await child(), 'code 403')
  expect(requests).toHaveLength(2)
  await call().call('dispatch.kill', { id: parent })
})

test.each(['none', 'clone', 'overlay'])(
  'an agent that may only read writes nothing with changeset %s (control: readwrite does)',
  async (changeset) => {
    const write = 'echo x > made.txt && echo wrote || echo kept out'
    const reader = await spawn(write, { boundary: 'readonly', changeset })
    await ended(reader)
    expect(await output(reader)).toContain('kept out')
    await expect(readFile(join(project, 'made.txt'))).rejects.toThrow()
    const writer = await spawn(write, { boundary: 'readwrite', changeset })
    await ended(writer)
    expect(await output(writer)).toContain('wrote')
  },
)

test('paths the user protects, and our own config, need a decision of their own', async () => {
  await user({ changesetProtectedPaths: ['deploy/**'] })
  const id = await spawn('mkdir -p deploy src && echo 1 > deploy/run.yml && echo 2 > src/main.c')
  await ended(id)
  const { files } = await call().call('changeset.get', { id })
  const isProtected = Object.fromEntries(files.map((file) => [file.path, file.protected]))
  expect(isProtected).toMatchObject({ 'deploy/run.yml': true, 'src/main.c': false })
})

test('a host that the config denies is cut off from a running agent at once', async () => {
  const script =
    'while curl -sf --max-time 5 http://registry.test:8080/y >/dev/null; do echo reached; sleep 0.1; done; echo cut'
  const id = await spawn(script, { ...gated(), boundary: 'network' })
  await says(id, 'reached')
  await user({ sandboxLevels: { network: { deniedHosts: ['registry.test'] } } })
  await says(id, 'cut')
  expect((await ended(id)).boundary).toBe('network')
})

test('a person opens the outputs of a run that began at full, while it runs', async () => {
  const id = await spawn('sleep 30', { boundary: 'full', outputs: { mode: 'none' } })
  await waitUntil(
    'it runs',
    async () => (await call().call('dispatch.get', { id })).status === 'running',
    60_000,
  )
  const asked = await call().call('boundary.request', { id, to: 'full', hosts: [], reason: 'all', wait_s: 0 })
  expect(asked.status).toBe('open')
  await call().call('boundary.approve', { id, request: asked.id, scope: 'once', message: '' })
  await waitUntil('it took', async () =>
    (await events(id)).some((event) => event.type === 'BoundaryEscalated' && event.to === 'full'),
  )
  await call().call('dispatch.kill', { id })
  await ended(id)
})
