import { access, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'
import { createEngine } from '../../src/engine/index.ts'
import { Bench, execute, killSupervisor, processesWith, waitUntil } from '../dispatch/harness.ts'

let bench: Bench
beforeEach(async () => {
  bench = await Bench.create({ 'one.txt': 'old', 'two.txt': 'old' })
})
afterEach(() => bench[Symbol.asyncDispose]())

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

async function makeWorktree(): Promise<void> {
  const identity = ['-c', 'user.name=u', '-c', 'user.email=u@v']
  for (const args of [
    ['init', '-q', '-b', 'main'],
    ['add', '-A'],
    ['commit', '-q', '-m', 'first'],
  ]) {
    await execute('git', ['-C', bench.project, ...identity, ...args])
  }
  await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
}

const watcher = `
  while [ ! -e stop ]; do
    a=$(cat one.txt); b=$(cat two.txt); c=$(cat one.txt)
    [ "$a$b$c" = oldoldold ] || echo "SAW $a $b $c"
    echo turn >> turns
  done; rm -f stop`

test('a changeset does not land under an agent that runs on the same folder, and that agent sees nothing of it', async () => {
  const writer = await bench.spawn('echo -n new > one.txt; echo -n new > two.txt')
  await bench.ended(writer)
  const running = await bench.spawn(`${watcher}; echo finished`)
  await bench.running(running)
  await expect(bench.client.call('changeset.apply', { id: writer, all: true })).rejects.toMatchObject({
    code: 'workspace.agent_running',
    exitCode: 75,
    details: { running },
  })
  expect(await readFile(join(bench.project, 'one.txt'), 'utf8')).toBe('old')
  await bench.client.call('dispatch.kill', { id: running })
  expect(await bench.output(running)).not.toContain('SAW')
  expect((await bench.client.call('changeset.apply', { id: writer, all: true })).applied).toHaveLength(2)
  expect(await readFile(join(bench.project, 'two.txt'), 'utf8')).toBe('new')
})

test('a landing that was asked for while an agent ran lands when it ends, with nobody there to ask again', async () => {
  const writer = await bench.spawn('echo -n new > one.txt; echo -n new > two.txt')
  await bench.ended(writer)
  const running = await bench.spawn(`${watcher}; echo finished`)
  await bench.running(running)
  const asked = await bench.client.call('changeset.apply', { id: writer, all: true, when: 'idle' })
  expect(asked).toMatchObject({ state: 'review', applied: [], waits_for: [running] })
  expect(await readFile(join(bench.project, 'one.txt'), 'utf8')).toBe('old')
  expect(await bench.client.call('landing.list', {})).toMatchObject([
    { id: writer, kind: 'apply', waits_for: [running], problem: null },
  ])
  // It outlives whoever asked; what lands it is the supervisor of the agent that was in the way.
  await bench.engine.close()
  bench.engine = await createEngine({ dataDir: bench.dataDir, host: 'command-line' })
  expect(await bench.client.call('landing.list', {})).toHaveLength(1)
  await bench.client.call('dispatch.kill', { id: running })
  await waitUntil(
    'it has landed',
    async () => (await bench.client.call('landing.list', {})).length === 0,
    60_000,
  )
  expect(await readFile(join(bench.project, 'one.txt'), 'utf8')).toBe('new')
  expect(await readFile(join(bench.project, 'two.txt'), 'utf8')).toBe('new')
  expect(await bench.output(running)).not.toContain('SAW')
  expect(await bench.client.call('changeset.get', { id: writer })).toMatchObject({ state: 'applied' })

  // Taking it back waits in the same way, and who starts meanwhile is told that he makes it wait longer.
  const second = await bench.spawn('sleep 300')
  await bench.running(second)
  const undo = await bench.client.call('changeset.undo', { id: writer, when: 'idle' })
  expect(undo).toMatchObject({ state: 'applied', applied: [], waits_for: [second] })
  const preflight = await bench.client.call('dispatch.preflight', {
    agent: 'shell',
    prompt: 'true',
    roots: [bench.project],
  })
  const told = preflight.checks.map(({ detail }) => detail)
  expect(told).toContainEqual(expect.stringContaining(`${writer} waits to land`))
  await bench.client.call('dispatch.kill', { id: second })
  await waitUntil(
    'it is taken back',
    async () => (await bench.client.call('landing.list', {})).length === 0,
    60_000,
  )
  expect(await readFile(join(bench.project, 'one.txt'), 'utf8')).toBe('old')
  expect(await bench.client.call('changeset.get', { id: writer })).toMatchObject({ state: 'review' })
})

test('a landing that waits outlives the kill -9 of the agent it waits for, and the next start finds it', async () => {
  const writer = await bench.spawn('echo -n new > one.txt')
  await bench.ended(writer)
  const running = await bench.spawn('sleep 300')
  await bench.running(running)
  await bench.client.call('changeset.apply', { id: writer, all: true, when: 'idle' })
  await killSupervisor(bench.dataDir)
  await waitUntil('it is gone', async () => (await processesWith(bench.dataDir)).length === 0, 60_000)
  expect(await readFile(join(bench.project, 'one.txt'), 'utf8')).toBe('old')
  await bench.engine.close()
  bench.engine = await createEngine({ dataDir: bench.dataDir, host: 'command-line' })
  expect(await readFile(join(bench.project, 'one.txt'), 'utf8')).toBe('new')
  expect(await bench.client.call('landing.list', {})).toEqual([])
})

test('what waits lands as it was reviewed or not at all, and can be taken back', async () => {
  const writer = await bench.spawn('echo -n new > one.txt')
  await bench.ended(writer)
  const running = await bench.spawn('sleep 300')
  await bench.running(running)
  const wait = () => bench.client.call('changeset.apply', { id: writer, all: true, when: 'idle' })
  await wait()
  await bench.client.call('landing.cancel', { id: writer })
  await expect(bench.client.call('landing.cancel', { id: writer })).rejects.toMatchObject({ exitCode: 66 })
  await wait()
  // The user edits the same line meanwhile: a conflict, which nobody is there to settle.
  await writeFile(join(bench.project, 'one.txt'), 'mine')
  await bench.client.call('dispatch.kill', { id: running })
  await waitUntil(
    'it was tried',
    async () => (await bench.client.call('landing.list', {}))[0]?.problem !== null,
    60_000,
  )
  expect(await bench.client.call('landing.list', {})).toMatchObject([{ id: writer, waits_for: [] }])
  expect(await readFile(join(bench.project, 'one.txt'), 'utf8')).toBe('mine')
  const { state, escalated } = await bench.client.call('changeset.get', { id: writer })
  expect({ state, escalated }).toMatchObject({ state: 'review', escalated: expect.stringContaining('land') })
  // A decision of a person ends the wait.
  await bench.client.call('changeset.reject', { id: writer, comment: 'no' })
  expect(await bench.client.call('landing.list', {})).toEqual([])
})

test('the control: files changed by hand under a running agent are seen at once', async () => {
  const running = await bench.spawn(`${watcher}; echo finished`)
  await bench.running(running)
  await writeFile(join(bench.project, 'one.txt'), 'new')
  await waitUntil('it is seen', async () => (await bench.output(running)).includes('SAW'))
  await bench.client.call('dispatch.kill', { id: running })
})

test('agents in worktree sandboxes do not hold each other up: each has a tree of its own', async () => {
  await makeWorktree()
  const running = await bench.spawn(`${watcher}; echo finished`, { worktree: 'feature' })
  await bench.running(running)
  const writer = await bench.spawn('echo -n new > one.txt; echo -n new > two.txt', { worktree: 'feature' })
  await bench.ended(writer)
  const landed = await bench.client.call('agent.land', { id: writer, all: true, how: 'squash' })
  expect(landed).toMatchObject({ landed: true })
  expect(await readFile(join(landed.tree, 'one.txt'), 'utf8')).toBe('new')
  await bench.client.call('dispatch.kill', { id: running })
  expect(await bench.output(running)).not.toContain('SAW')
})

test('an agent that starts on an integration tree while something lands there sees its files and its commit, or neither', async () => {
  using place = new Place('launcher')
  const folder = join(place.home, 'programs')
  await mkdir(folder)
  const { stdout: real } = await execute('sh', ['-c', 'command -v git'])
  const said = (name: string) => join(place.home, name)
  // A git that takes its time over the commit.
  const slow = `#!/bin/sh
case "$*" in *commit-tree*) touch ${said('committing')}; while [ ! -e ${said('go')} ]; do sleep 0.05; done;; esac
exec ${real.trim()} "$@"
`
  await writeFile(join(folder, 'git'), slow, { mode: 0o755 })
  const identity = '-c user.name=u -c user.email=u@v'
  const script = `git init -q -b main; echo old > a.txt; git add -A; git ${identity} commit -qm first`
  await execute('sh', ['-ec', script], { cwd: place.folder })
  const made = await place.orangery('worktree', 'create', '--repo', '.', '--name', 'w', '--json')
  const { tree_path: tree = '' } = JSON.parse(made.stdout) as { tree_path?: string }
  await place.orangery('run', '--worktree', 'w', '--', 'sh', '-c', 'echo new > a.txt')
  const [{ id } = { id: '' }] = JSON.parse((await place.orangery('changeset', 'list', '--json')).stdout) as {
    id: string
  }[]

  const env = { PATH: `${folder}:${place.env['PATH']}` }
  const landing = place.orangeryWith({ env }, 'agent', 'land', id, '--all', '--how', 'squash')
  await waitUntil('it commits', () => exists(said('committing')), 30_000)
  expect(await readFile(join(tree, 'a.txt'), 'utf8')).toBe('new\n')
  const look = 'cat a.txt; git status --porcelain; git rev-list --count HEAD'
  const looking = place.orangery('run', '--dir', tree, '--', 'sh', '-c', look)
  await sleep(1_500)
  await writeFile(said('go'), '')
  expect((await landing).code).toBe(0)
  expect((await looking).stdout).toBe('new\n2\n')
})

test('an agent in a worktree sandbox keeps the refs it started with while another lands and the user packs refs', async () => {
  await makeWorktree()
  const git = async (...args: string[]) =>
    (await execute('git', ['-C', bench.project, ...args])).stdout.trim()
  await git('tag', 'v1')
  await git('update-ref', 'refs/remotes/origin/main', 'main')
  await git('symbolic-ref', 'refs/remotes/origin/HEAD', 'refs/remotes/origin/main')
  const identity =
    'export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b'
  const writer = await bench.spawn(`${identity}; echo -n new > one.txt; git commit -qam other`, {
    worktree: 'feature',
  })
  await bench.ended(writer)
  const { invocation_id: id, sandbox_branch: own } = await bench.client.call('agent.start', {
    worktree: 'feature',
  })
  const refs = 'git for-each-ref --format="%(refname) %(objectname) %(symref)"'
  const look = `{ ${refs}; git reflog --all; }`
  const shown = `${refs} | sed "s/^/REF /"`
  await bench.spawn(
    `${look} > first; ${shown}; echo ready; read line; ${look} > second; cmp first second && echo STEADY
     ${identity}; rm first second; echo mine > mine.txt; git add -A; git commit -qm Mine
     git tag mine; git branch -q other; git branch -q -D other; ${refs} | grep -c mine`,
    { invocation: id },
  )
  await waitUntil('it has looked', async () => (await bench.output(id)).includes('ready'), 30_000)
  const before = await git('for-each-ref', '--format=%(refname) %(objectname)')
  const { landed } = await bench.client.call('agent.land', { id: writer, all: true, how: 'merge' })
  await git('branch', 'later')
  await git('tag', '-d', 'v1')
  await git('pack-refs', '--all', '--prune')
  const after = await git('for-each-ref', '--format=%(refname) %(objectname)')
  expect({ landed, isSame: after === before }).toEqual({ landed: true, isSame: false })
  await bench.client.call('dispatch.input', { id, data: 'go\r' })
  await bench.ended(id)
  const output = await bench.output(id)
  expect(output).toContain('STEADY')
  for (const ref of ['heads/main', 'tags/v1', 'remotes/origin/HEAD', `heads/${own}`])
    expect(output).toContain(`REF refs/${ref} `)
  expect(output).not.toMatch(new RegExp(`REF \\S*(${writer}|refs/orangery)`))
  // What it made comes out, and what others did meanwhile is not taken for its own.
  const { commits } = await bench.client.call('agent.get', { id })
  expect(commits.map(({ subject }) => subject)).toEqual(['Mine'])
  const { dropped } = await bench.client.call('changeset.get', { id })
  const told = dropped.map(({ path }) => path).filter((path) => /refs/.test(path))
  expect(told).toEqual([`.git/refs/heads/${own}`, '.git/refs/tags/mine'].toSorted())
  expect(await git('for-each-ref', '--format=%(refname) %(objectname)')).toBe(after)
})

const refWatcher = `
  refs() { git for-each-ref --format="%(refname) %(objectname)"; }
  first=$(refs); echo ready
  while [ ! -e stop ]; do
    [ "$(refs)" = "$first" ] || { echo "SAW $(refs)"; first=$(refs); }
  done; rm -f stop; echo finished`

test.each(['checkout that holds the repository', 'linked worktree of it'])(
  'an agent on a %s sees no step of a landing in an integration worktree, which waits for it',
  async (where) => {
    await makeWorktree()
    const isLinked = where.startsWith('linked')
    const folder = isLinked ? join(bench.base, 'linked') : bench.project
    if (isLinked) await execute('git', ['-C', bench.project, 'worktree', 'add', '-q', folder])
    const identity = '-c user.name=a -c user.email=a@b'
    const writer = await bench.spawn(`echo -n new > one.txt; git ${identity} commit -qam other`, {
      worktree: 'feature',
    })
    await bench.ended(writer)
    const running = await bench.spawn(refWatcher, { roots: [folder] })
    await waitUntil('it has looked', async () => (await bench.output(running)).includes('ready'), 30_000)
    const refs = async () =>
      (await execute('git', ['-C', bench.project, 'for-each-ref', '--format=%(refname) %(objectname)']))
        .stdout
    const before = await refs()
    const land = { id: writer, all: true, how: 'merge' } as const
    await expect(bench.client.call('agent.land', land)).rejects.toMatchObject({
      code: 'workspace.agent_running',
      exitCode: 75,
      details: { running },
    })
    expect(await bench.client.call('agent.land', { ...land, when: 'idle' })).toMatchObject({
      landed: false,
      waits_for: [running],
    })
    expect(await refs()).toBe(before)
    const told = await bench.client.call('dispatch.preflight', {
      agent: 'shell',
      prompt: 'true',
      roots: [folder],
    })
    expect(told.checks.map(({ detail }) => detail)).toContainEqual(
      expect.stringContaining(`${writer} waits to land`),
    )
    await bench.client.call('dispatch.kill', { id: running })
    expect(await bench.output(running)).not.toContain('SAW')
    await waitUntil(
      'it has landed',
      async () => (await bench.client.call('landing.list', {})).length === 0,
      60_000,
    )
    expect(await refs()).toContain(`refs/orangery/${writer}/heads/`)
    expect(await bench.client.call('changeset.get', { id: writer })).toMatchObject({ state: 'applied' })
  },
)

test('an agent on the checkout that holds the repository keeps nobody from making worktrees and sandboxes, and no files of a linked worktree from landing', async () => {
  await makeWorktree()
  const linked = join(bench.base, 'linked')
  await execute('git', ['-C', bench.project, 'worktree', 'add', '-q', linked])
  const writer = await bench.spawn('echo -n new > one.txt', { roots: [linked] })
  await bench.ended(writer)
  const running = await bench.spawn('sleep 300')
  await bench.running(running)
  await bench.client.call('worktree.create', { repo: bench.project, name: 'second' })
  const { invocation_id: id } = await bench.client.call('agent.start', { worktree: 'second' })
  await bench.client.call('agent.discard', { id })
  expect((await bench.client.call('changeset.apply', { id: writer, all: true })).applied).toHaveLength(1)
  expect(await readFile(join(linked, 'one.txt'), 'utf8')).toBe('new')
  await bench.client.call('dispatch.kill', { id: running })
})

test('one workspace is never mounted twice: a second dispatch in the same invocation is refused', async () => {
  await makeWorktree()
  const meta = await bench.client.call('agent.start', { worktree: 'feature' })
  const first = await bench.spawn('sleep 30', { invocation: meta.invocation_id })
  expect(first).toBe(meta.invocation_id)
  await bench.running(first)
  await expect(bench.spawn('true', { invocation: meta.invocation_id })).rejects.toMatchObject({
    exitCode: 75,
  })
  await bench.client.call('dispatch.kill', { id: first })
})

test('commits of an agent whose supervisor was killed are there when it is found interrupted', async () => {
  await makeWorktree()
  const id = await bench.spawn(
    'echo -n new > one.txt; git -c user.name=a -c user.email=a@b commit -qam "Before the end"; touch ready; sleep 300',
    { worktree: 'feature' },
  )
  await bench.running(id)
  const meta = async () => (await bench.client.call('agent.get', { id })).meta
  const mount = (await meta())!.roots[0]!.mount
  await waitUntil('it has committed', () =>
    mount.kind === 'overlay'
      ? access(join(mount.upper, 'ready')).then(
          () => true,
          () => false,
        )
      : false,
  )
  await killSupervisor(bench.dataDir)
  // The next question to the engine finds out.
  await expect(bench.client.call('dispatch.input', { id, data: '' })).rejects.toMatchObject({ kind: 'busy' })
  expect((await bench.ended(id)).status).toBe('interrupted')
  const { commits } = await bench.client.call('agent.get', { id })
  expect(commits.map(({ subject }) => subject)).toEqual(['Before the end'])
})
