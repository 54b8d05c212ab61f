import { access, mkdir, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'
import { createEngine } from '../../src/engine/index.ts'
import { Bench, execute, fingerprint } from '../dispatch/harness.ts'

let bench: Bench
beforeEach(async () => {
  bench = await Bench.create({ 'a.txt': 'one\n' })
})
afterEach(() => bench[Symbol.asyncDispose]())

async function makeRepository(folder: string): Promise<void> {
  const identity = ['-c', 'user.name=u', '-c', 'user.email=u@v']
  for (const args of [
    ['init', '-q', '-b', 'main'],
    ['add', '-A'],
    ['commit', '-q', '-m', 'first'],
  ]) {
    await execute('git', ['-C', folder, ...identity, ...args])
  }
}

/** The database as any other program sees it. */
function mirrored(id: string): { status: string; outcome: string | null } | undefined {
  const database = new Database(join(bench.dataDir, 'orangery.db'), { readonly: true })
  try {
    return database
      .prepare<[string], { status: string; outcome: string | null }>(
        'SELECT status, outcome FROM invocations WHERE id = ?',
      )
      .get(id)
  } finally {
    database.close()
  }
}

async function restart(host: 'browser' | 'command-line' = 'browser'): Promise<void> {
  await bench.engine.close()
  bench.engine = await createEngine({ dataDir: bench.dataDir, host })
}
const orphans = async (fresh: boolean) =>
  (await bench.client.call('workspace.orphans', { fresh })).map(({ kind, id }) => `${kind} ${id}`)
const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

test('the database mirrors each record through its life, and follows the disk where the two differ', async () => {
  await makeRepository(bench.project)
  await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
  const { invocation_id: id, sandbox_path } = await bench.client.call('agent.start', { worktree: 'feature' })
  expect(mirrored(id)).toEqual({ status: 'starting', outcome: null })
  await bench.ended(await bench.spawn('echo two > a.txt', { invocation: id }))
  expect(mirrored(id)).toEqual({ status: 'completed', outcome: null })
  const meta = join(sandbox_path, '..', '..', '..', 'invocations', id, 'meta.json')
  const text = await readFile(meta, 'utf8')
  await bench.engine.close()
  await writeFile(meta, text.replace('"completed"', '"interrupted"'))
  bench.engine = await createEngine({ dataDir: bench.dataDir, host: 'browser' })
  expect(await orphans(false)).toEqual([])
  expect(mirrored(id)).toEqual({ status: 'interrupted', outcome: null })
  expect(await bench.client.call('agent.discard', { id })).toMatchObject({ files: 1, commits: 0 })
  expect(mirrored(id)).toEqual({ status: 'interrupted', outcome: 'discarded' })
  // What was given up with its sandbox does not wait for review, and comes back with it.
  const state = async () => (await bench.client.call('changeset.get', { id })).state
  expect(await state()).toBe('abandoned')
  await bench.client.call('archive.restore', { id })
  expect(await state()).toBe('review')
})

test('a record says when the last run in its sandbox ended, and that none has while one runs', async () => {
  await makeRepository(bench.project)
  await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
  const { invocation_id: id } = await bench.client.call('agent.start', { worktree: 'feature' })
  const read = async () => (await bench.client.call('agent.get', { id })).meta
  expect(await read()).toMatchObject({ status: 'starting', ended_at: null })
  const from = Math.floor(Date.now() / 1000) * 1000
  await bench.ended(await bench.spawn('echo two > a.txt', { invocation: id }))
  const { status, ended_at } = (await read()) ?? {}
  expect({ status, ended_at }).toEqual({
    status: 'completed',
    ended_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/) as unknown,
  })
  expect(Date.parse(ended_at ?? '')).toBeGreaterThanOrEqual(from)
  await bench.client.call('agent.land', { id, all: true, how: 'squash' })
  expect(await read()).toMatchObject({ outcome: 'landed', ended_at })
})

test('a host that starts compares disk and database, shows what belongs to nothing, and touches none of it', async () => {
  await makeRepository(bench.project)
  await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
  const start = () => bench.client.call('agent.start', { worktree: 'feature' })
  const [lost, treeless, recordless] = [await start(), await start(), await start()]
  const repo = join(lost.sandbox_path, '..', '..', '..')
  await bench.engine.close()
  for (const part of ['invocations', 'sandboxes']) {
    await rename(join(repo, part, lost.invocation_id), join(bench.base, `${part}-away`))
  }
  await rm(treeless.sandbox_path, { recursive: true })
  await rm(join(repo, 'invocations', recordless.invocation_id), { recursive: true })
  const past = new Date(Date.now() - 60_000)
  await execute('touch', ['-d', past.toISOString(), join(repo, 'sandboxes', recordless.invocation_id)])
  const before = await fingerprint(join(repo, 'sandboxes'))
  const refs = async () => (await execute('git', ['-C', bench.project, 'for-each-ref'])).stdout
  const refsBefore = await refs()

  bench.engine = await createEngine({ dataDir: bench.dataDir, host: 'browser' })
  const expected = [
    `record_lost ${lost.invocation_id}`,
    `record_without_sandbox ${treeless.invocation_id}`,
    `sandbox_without_record ${recordless.invocation_id}`,
  ]
  expect(await orphans(false)).toEqual(expect.arrayContaining(expected))
  expect(await fingerprint(join(repo, 'sandboxes'))).toBe(before)
  expect(await refs()).toBe(refsBefore)
  const { orphans: inReport } = await bench.client.call('host.doctor', {})
  expect(inReport?.map(({ kind, id }) => `${kind} ${id}`)).toEqual(expect.arrayContaining(expected))

  // A person's word ends each of them; nothing else does.
  await restart()
  expect(await orphans(false)).toEqual(expect.arrayContaining(expected))
  for (const { invocation_id: id } of [lost, treeless, recordless]) {
    await bench.client.call('agent.discard', { id })
  }
  const ids = [treeless.invocation_id, recordless.invocation_id]
  expect((await orphans(true)).filter((each) => ids.some((id) => each.includes(id)))).toEqual([])
  const again = bench.client.call('agent.discard', { id: recordless.invocation_id })
  await expect(again).rejects.toThrow('it is in the archive already')
})

test('work of which the database knows nothing is shown, does not land unreviewed, and can be taken in again', async () => {
  await makeRepository(bench.project)
  await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
  const { invocation_id: id } = await bench.client.call('agent.start', { worktree: 'feature' })
  const script =
    'echo two > a.txt; git -c user.name=a -c user.email=a@b commit -qam Inside; echo more > new.txt'
  await bench.ended(await bench.spawn(script, { invocation: id }))
  await bench.engine.close()
  for (const suffix of ['', '-wal', '-shm'])
    await rm(join(bench.dataDir, `orangery.db${suffix}`), { force: true })
  bench.engine = await createEngine({ dataDir: bench.dataDir, host: 'browser' })
  expect(await orphans(false)).toEqual([`work_unknown ${id}`])
  const land = () => bench.client.call('agent.land', { id, how: 'merge', all: true })
  await expect(land()).rejects.toThrow('no changeset')
  await bench.ended(await bench.spawn('true', { invocation: id }))
  expect(await orphans(true)).toEqual([])
  const { landed, applied } = await land()
  expect({ landed, applied: applied.length }).toEqual({ landed: true, applied: 2 })
})

test('agent ls and doctor say that something belongs to nothing', async () => {
  using place = new Place('launcher')
  expect(await place.orangery('agent', 'ls')).toMatchObject({ code: 0, stderr: '' })
  const orphan = join(place.dataDir, 'archive', 'unknown')
  await mkdir(orphan, { recursive: true })
  expect((await place.orangery('agent', 'ls')).stderr).toContain('orangery agent orphans')
  expect(JSON.parse((await place.orangery('agent', 'ls', '--json')).stdout)).toEqual([])
  const report = JSON.parse((await place.orangery('doctor', '--json')).stdout) as { orphans: object[] }
  expect(report.orphans).toMatchObject([{ kind: 'archive_without_record', place: orphan }])
  expect(await readdir(join(place.dataDir, 'archive'))).toEqual(['unknown'])
})

test('a sandbox whose changeset has landed goes when it holds nothing else; undo and a second landing work without it', async () => {
  const id = await bench.spawn('echo two > a.txt; mkdir b; echo new > b/c.txt; ln -s a.txt link')
  await bench.ended(id)
  const entry = async () =>
    (await bench.client.call('agent.list', { all: true })).find((each) => each.id === id)!.meta!
  const dir = (await entry()).sandbox_path
  expect(await exists(dir)).toBe(true)
  await bench.client.call('changeset.apply', { id, all: true })
  expect(await entry()).toMatchObject({ outcome: 'landed', archive: null })
  expect(await exists(dir)).toBe(false)
  expect((await bench.client.call('changeset.undo', { id })).state).toBe('review')
  expect(await readFile(join(bench.project, 'a.txt'), 'utf8')).toBe('one\n')
  expect((await bench.client.call('changeset.apply', { id, all: true })).state).toBe('applied')
  expect(await readFile(join(bench.project, 'b', 'c.txt'), 'utf8')).toBe('new\n')
  await bench.client.call('changeset.undo', { id })
  expect((await bench.client.call('changeset.abandon', { id })).state).toBe('abandoned')
  expect((await bench.client.call('changeset.restore', { id })).state).toBe('review')
})

test.each(['overlay', 'clone'])(
  'of the %s strategy: what did not land goes to the archive with its sandbox, and comes back with an undo',
  async (changeset) => {
    const sandbox_spec = JSON.stringify({ changeset })
    const id = await bench.spawn('echo two > a.txt; echo precious > kept.txt', { sandbox_spec })
    await bench.ended(id)
    const meta = async () => (await bench.client.call('agent.get', { id })).meta!
    const { mount } = (await meta()).roots[0]!
    const layer = mount.kind === 'overlay' ? mount.upper : mount.source
    await bench.client.call('changeset.decide', { id, path: 'kept.txt', verdict: 'reject' })
    await bench.client.call('changeset.decide', { id, path: 'a.txt', verdict: 'approve' })
    const { state } = await bench.client.call('changeset.apply', { id })
    expect(state).toBe('applied')
    expect(await exists(layer)).toBe(false)
    expect(await bench.client.call('archive.list', {})).toMatchObject([{ id, why: 'landed' }])
    await bench.client.call('changeset.undo', { id })
    expect(await readFile(join(layer, 'kept.txt'), 'utf8')).toBe('precious\n')
    expect(await meta()).toMatchObject({ outcome: null, archive: null })
    expect(await bench.client.call('archive.list', {})).toEqual([])
  },
)

test('giving a changeset up names what goes with its sandbox: commits of the agent, and commits and edits of the user', async () => {
  await makeRepository(bench.project)
  await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
  const { invocation_id: id, sandbox_path: tree } = await bench.client.call('agent.start', {
    worktree: 'feature',
  })
  const identity = ['-c', 'user.name=u', '-c', 'user.email=u@v']
  await bench.spawn(`echo new > new.txt; git add -A; git ${identity.join(' ')} commit -qm "Of the agent"`, {
    invocation: id,
  })
  await bench.ended(id)
  await execute('git', ['-C', tree, ...identity, 'commit', '-q', '--allow-empty', '-m', 'Of the user'])
  await writeFile(join(tree, 'a.txt'), 'edit\n')
  const abandoned = await bench.client.call('changeset.abandon', { id })
  expect(abandoned).toMatchObject({
    state: 'abandoned',
    commits: 2,
    notes: [
      expect.stringMatching(/^commits of the agent: [0-9a-f]{7} Of the agent$/),
      expect.stringMatching(/^your own commits in the sandbox: .*Of the user$/),
      expect.stringMatching(/did not commit: a\.txt$/),
    ],
  })
})

test('an abandoned changeset that is restored has its sandbox back', async () => {
  const id = await bench.spawn('echo precious > work.txt')
  await bench.ended(id)
  const { mount } = (await bench.client.call('agent.get', { id })).meta!.roots[0]!
  const work = join(mount.kind === 'overlay' ? mount.upper : mount.source, 'work.txt')
  await bench.client.call('changeset.abandon', { id })
  expect(await exists(work)).toBe(false)
  await bench.client.call('changeset.restore', { id })
  expect(await readFile(work, 'utf8')).toBe('precious\n')
  await bench.client.call('changeset.apply', { id, all: true })
  expect(await readFile(join(bench.project, 'work.txt'), 'utf8')).toBe('precious\n')
})
