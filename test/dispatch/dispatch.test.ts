import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Bench, fingerprint, killSupervisor, processesWith, waitUntil } from './harness.ts'

test('a run leaves the folder byte for byte as it was, and apply makes exactly the reviewed changes', async () => {
  await using bench = await Bench.create({ 'old.txt': 'old\n', 'keep.txt': 'keep\n' })
  const before = await fingerprint(bench.project)
  const id = await bench.spawn('echo hi > new.txt; rm old.txt; echo printed')
  const dispatch = await bench.ended(id)
  expect(dispatch).toMatchObject({ status: 'completed', exit_code: 0, sandbox_spec: null })
  expect(dispatch.changeset).toMatchObject({ state: 'review', files: 2 })
  expect(await fingerprint(bench.project)).toBe(before)
  expect(await bench.output(id)).toContain('printed')

  const changeset = await bench.client.call('changeset.get', { id })
  expect(changeset.files.map((file) => [file.path, file.change])).toEqual([
    ['new.txt', 'added'],
    ['old.txt', 'deleted'],
  ])
  const applied = await bench.client.call('changeset.apply', { id, all: true })
  expect(applied).toMatchObject({ state: 'applied', skipped: [] })
  expect((await bench.client.call('dispatch.get', { id })).changeset).toMatchObject({
    state: 'applied',
    files: 2,
  })
  expect((await bench.client.call('changeset.get', { id })).files).toHaveLength(2)
  expect((await readdir(bench.project)).sort()).toEqual(['keep.txt', 'new.txt'])
  expect(await readFile(join(bench.project, 'new.txt'), 'utf8')).toBe('hi\n')
})

test('a command that changes nothing has no changeset and leaves no workspace', async () => {
  await using bench = await Bench.create()
  const id = await bench.spawn('cat old.txt')
  expect(await bench.ended(id)).toMatchObject({ status: 'completed', changeset: null })
  const repos = await readdir(join(bench.dataDir, 'repos'))
  expect(await readdir(join(bench.dataDir, 'repos', repos[0]!, 'sandboxes'))).toEqual([])
})

test('a command that fails keeps its own exit code and its changes wait for review', async () => {
  await using bench = await Bench.create()
  const id = await bench.spawn('echo half > half.txt; exit 7')
  expect(await bench.ended(id)).toMatchObject({
    status: 'failed',
    exit_code: 7,
    changeset: { state: 'review', files: 1 },
  })
})

test('an abandoned changeset lands nothing', async () => {
  await using bench = await Bench.create()
  const before = await fingerprint(bench.project)
  const id = await bench.spawn('echo x > x.txt')
  await bench.ended(id)
  expect(await bench.client.call('changeset.abandon', { id })).toMatchObject({ state: 'abandoned' })
  expect(await fingerprint(bench.project)).toBe(before)
  await expect(bench.client.call('changeset.apply', { id, all: true })).rejects.toMatchObject({
    kind: 'busy',
  })
})

test('level 0 runs with the host in view and still leaves a changeset', async () => {
  await using bench = await Bench.create()
  const before = await fingerprint(bench.project)
  const id = await bench.spawn('echo bare > bare.txt; id -u', { sandbox_spec: '{"isolation":"none"}' })
  expect(await bench.ended(id)).toMatchObject({ status: 'completed', level: 0, changeset: { files: 1 } })
  expect(await fingerprint(bench.project)).toBe(before)
  expect(await bench.output(id)).toContain(String(process.getuid?.()))
})

test('a killed dispatch is cancelled, takes everything inside with it and keeps what was written', async () => {
  await using bench = await Bench.create()
  const id = await bench.spawn('echo part > part.txt; setsid sleep 8641 & sleep 8642')
  await bench.running(id)
  await waitUntil('sleep runs', async () => (await processesWith('sleep\x008641')).length > 0)
  await bench.client.call('dispatch.kill', { id })
  expect(await bench.ended(id)).toMatchObject({ status: 'cancelled', changeset: { files: 1 } })
  expect(await processesWith('sleep\x00864')).toEqual([])
})

test('a dispatch that takes too long ends as timeout, told apart in its violations', async () => {
  await using bench = await Bench.create()
  const id = await bench.spawn('sleep 8643', { sandbox_spec: '{"limits":{"timeout_s":1}}' })
  const dispatch = await bench.ended(id)
  expect(dispatch.status).toBe('timeout')
  expect(dispatch.sandbox_effective).toMatchObject({ violations: [{ kind: 'timeout', certain: true }] })
  expect(await processesWith('sleep\x008643')).toEqual([])
})

test('kill -9 of the supervisor leaves no process behind and the dispatch ends as interrupted with its work', async () => {
  await using bench = await Bench.create()
  const id = await bench.spawn('echo kept > kept.txt; sleep 8644')
  await bench.running(id)
  await waitUntil('sleep runs', async () => (await processesWith('sleep\x008644')).length > 0)
  await killSupervisor(bench.dataDir)
  await waitUntil(
    'everything inside is gone',
    async () => (await processesWith('sleep\x008644')).length === 0,
  )
  await expect(bench.client.call('dispatch.input', { id, data: 'x' })).rejects.toMatchObject({ kind: 'busy' })
  const dispatch = await bench.ended(id)
  expect(dispatch).toMatchObject({ status: 'interrupted', changeset: { state: 'review', files: 1 } })
  expect(dispatch.sandbox_effective).toMatchObject({ level: 1 })
})

test('what cannot start is refused before anything exists, and the row says why', async () => {
  await using bench = await Bench.create()
  const missing = join(bench.base, 'nowhere')
  await expect(bench.spawn('true', { roots: [missing] })).rejects.toMatchObject({
    kind: 'preflight',
    message: expect.stringContaining('does not exist'),
  })
  const [row] = await bench.client.call('dispatch.list', {})
  expect(row).toMatchObject({ status: 'preflight_failed', error: expect.stringContaining('does not exist') })
  expect(await readdir(bench.dataDir)).not.toContain('repos')
})

test('bad input leaves no row', async () => {
  await using bench = await Bench.create()
  await expect(bench.spawn('true', { sandbox_spec: '{"access_mode":"sideways"}' })).rejects.toMatchObject({
    kind: 'input',
  })
  await expect(bench.spawn('true', { sandbox_spec: '{"roots":["/usr"]}' })).rejects.toMatchObject({
    code: 'spec.contradiction',
  })
  await expect(bench.spawn('true', { agent: 'nobody' })).rejects.toMatchObject({ kind: 'not_found' })
  expect(await bench.client.call('dispatch.list', {})).toEqual([])
})

test('the spec is recorded byte for byte and shown nested', async () => {
  await using bench = await Bench.create()
  const text = '{ "access_mode" : "workspace-write",\t"x-unknown": [1, {"deep": null}] }'
  const id = await bench.spawn('true', { sandbox_spec: text })
  expect((await bench.ended(id)).sandbox_spec).toEqual(JSON.parse(text))
})

test('a readonly agent cannot write, a root it reads stays readable', async () => {
  await using bench = await Bench.create()
  const id = await bench.spawn('cat old.txt; echo x > old.txt', { sandbox_spec: '{"boundary":"readonly"}' })
  expect(await bench.ended(id)).toMatchObject({ status: 'failed', changeset: null })
  expect(await bench.output(id)).toMatch(/old[\s\S]*Read-only file system/)
})

test('typing reaches a running agent, and a resize reaches its terminal', async () => {
  await using bench = await Bench.create()
  const id = await bench.spawn('read line; echo "got $line"; stty size')
  await bench.running(id)
  await bench.client.call('dispatch.resize', { id, columns: 91, rows: 31 })
  await bench.client.call('dispatch.input', { id, data: 'hello\r' })
  await bench.ended(id)
  const output = await bench.output(id)
  expect(output).toContain('got hello')
  expect(output).toContain('31 91')
})

test('a changeset that moved since it was reviewed is refused', async () => {
  await using bench = await Bench.create()
  const id = await bench.spawn('echo x > x.txt')
  await bench.ended(id)
  const before = await fingerprint(bench.project)
  await expect(
    bench.client.call('changeset.apply', { id, all: true, revision: 'another' }),
  ).rejects.toMatchObject({ kind: 'busy' })
  expect(await fingerprint(bench.project)).toBe(before)
})

test('a file the user changed meanwhile is a conflict and is not overwritten', async () => {
  await using bench = await Bench.create()
  const id = await bench.spawn('echo agent > old.txt')
  await bench.ended(id)
  await writeFile(join(bench.project, 'old.txt'), 'mine\n')
  await expect(bench.client.call('changeset.apply', { id, all: true })).rejects.toMatchObject({
    kind: 'busy',
  })
  expect(await readFile(join(bench.project, 'old.txt'), 'utf8')).toBe('mine\n')
})

test('a denied write is told in the record as likely, with a reason', async () => {
  await using bench = await Bench.create()
  const id = await bench.spawn('echo x > /usr/x; true')
  const { sandbox_effective: effective } = await bench.ended(id)
  expect(effective).toMatchObject({ violations: [{ kind: 'write_denied', certain: false }] })
})

test('a protected file of the host that is not as it was at the end is on record', async () => {
  await using bench = await Bench.create({ '.envrc': '' })
  const id = await bench.spawn('read line')
  await bench.running(id)
  await writeFile(join(bench.project, '.envrc'), 'export X=1')
  await bench.client.call('dispatch.input', { id, data: 'go\r' })
  const { sandbox_effective: effective } = await bench.ended(id)
  expect(effective).toMatchObject({
    violations: [{ kind: 'host_changed', certain: false, detail: expect.stringContaining('.envrc') }],
  })
})

test('what a tool leaves in its home is listed and never lands', async () => {
  await using bench = await Bench.create()
  const id = await bench.spawn('mkdir -p ~/.cache/tool && echo x > ~/.cache/tool/y')
  expect(await bench.ended(id)).toMatchObject({ changeset: null })
  const notes: string[] = []
  for await (const { event } of bench.client.open('dispatch.events', { id, follow: false })) {
    if (event.type === 'Note') notes.push(event.text)
  }
  expect(notes.join()).toContain('~/.cache')
})
