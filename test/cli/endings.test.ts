import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ended, Place } from '../../src/cli/testing/orangery.ts'
import type { Changeset } from '../../src/shared/changeset.ts'
import { asUser, ordinaryUser } from './ordinaryUser.ts'
import { snapshot } from './snapshot.ts'
import { filesBelow, leftovers } from './traces.ts'

/**
 * Has written, tells when the command it waits for surely runs, and goes on until it is ended: a signal between
 * fork and exec is lost on a shell's child, at any terminal.
 */
const lasting = ['sh', '-c', 'echo draft > draft.txt; (sleep 0.5; echo ready) & sleep 600']

function untilReady(child: ReturnType<Place['start']>): Promise<void> {
  return new Promise((resolve) => {
    child.stdout.on('data', (chunk: Buffer) => {
      if (chunk.includes('ready')) resolve()
    })
  })
}

async function newestStatus(place: Place) {
  const listed = await place.orangery('dispatch', 'list', '--json')
  const [row] = JSON.parse(listed.stdout) as { id: string; status: string; changeset: unknown }[]
  return row
}

const endings = [
  ['SIGINT', 130, 1],
  ['SIGTERM', 143, 1],
  ['SIGHUP', 129, 1],
  ['SIGINT', 130, 0],
  ['SIGTERM', 143, 0],
] as const

test.for(endings)(
  '%s ends a run with %i at level %i at once and leaves nothing behind but its changeset',
  async ([signal, code, level]) => {
    using place = new Place('launcher')
    const before = snapshot(place.folder)
    const child = place.start({}, 'run', '-q', '--level', String(level), '--', ...lasting)
    child.stdin.end()
    const end = ended(child)
    await untilReady(child)
    child.kill(signal)
    expect((await end).code).toBe(code)
    expect(await leftovers(place.home)).toEqual([])
    expect(snapshot(place.folder)).toEqual(before)
    expect(await newestStatus(place)).toMatchObject({
      status: 'cancelled',
      error: `cancelled by ${signal}`,
      changeset: { state: 'review', files: 1 },
    })
  },
)

test.for(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  '%s ends a run that still prepares at once, with no dispatch and nothing else left',
  async (signal) => {
    using place = new Place('launcher')
    const asked = join(place.home, 'asked')
    const cards = join(place.home, 'config/orangery/agents')
    mkdirSync(cards, { recursive: true })
    // Whoever looks whether the account is signed in takes his time.
    const check = ['sh', '-c', `: >${asked}; while kill -0 $PPID; do sleep 0.1; done`]
    const card = { id: 'slow', name: 'Slow', command: ['true'], auth: { check } }
    writeFileSync(join(cards, 'slow.json'), JSON.stringify(card))
    await place.orangery('dispatch', 'list')
    const before = filesBelow(place.dataDir)
    const child = place.start({}, 'run', '--agent', 'slow')
    child.stdin.end()
    const end = ended(child)
    await expect.poll(() => existsSync(asked), { timeout: 10_000 }).toBe(true)
    child.kill(signal)
    await end
    expect(child.signalCode).toBe(signal)
    expect(await leftovers(place.home)).toEqual([])
    expect(filesBelow(place.dataDir)).toEqual(before)
    expect((await place.orangery('dispatch', 'list', '--json')).stdout.trim()).toBe('[]')
  },
)

test('Ctrl-C before the command has begun ends the run, and it never begins', async () => {
  using place = new Place('launcher')
  const slow = join(place.home, 'slow')
  mkdirSync(slow)
  const script = ['#!/bin/sh', ': >"$0.asked"', 'sleep 2', 'PATH=${PATH#*:} exec git "$@"', '']
  writeFileSync(join(slow, 'git'), script.join('\n'), { mode: 0o755 })
  const env = { PATH: `${slow}:${place.env['PATH'] ?? ''}` }
  const child = place.start({ env }, 'run', '-q', '--', 'sh', '-c', 'echo ran > ran.txt')
  child.stdin.end()
  const end = ended(child)
  await expect.poll(async () => (await newestStatus(place))?.status, { timeout: 10_000 }).toBe('starting')
  child.kill('SIGINT')
  expect((await end).code).toBe(130)
  expect(await leftovers(place.home)).toEqual([])
  expect(await newestStatus(place)).toMatchObject({
    status: 'cancelled',
    error: 'cancelled by SIGINT',
    changeset: null,
  })
})

test('a command that ends in good order after SIGTERM keeps its own code', async () => {
  using place = new Place('launcher')
  const script = 'trap "echo saved > saved.txt; exit 4" TERM; echo ready; while :; do sleep 0.1; done'
  const child = place.start({}, 'run', '-q', '--', 'sh', '-c', script)
  child.stdin.end()
  const end = ended(child)
  await untilReady(child)
  child.kill('SIGTERM')
  expect((await end).code).toBe(4)
  expect(await newestStatus(place)).toMatchObject({ status: 'cancelled', changeset: { files: 1 } })
})

test('a command that will not hear is ended all the same', async () => {
  using place = new Place('launcher')
  const script = 'trap "" TERM INT; echo ready; while :; do sleep 0.1; done'
  const child = place.start({}, 'run', '-q', '--', 'sh', '-c', script)
  child.stdin.end()
  const end = ended(child)
  await untilReady(child)
  child.kill('SIGTERM')
  expect((await end).code).toBe(143)
  expect(await leftovers(place.home)).toEqual([])
})

test('a reader that has seen enough ends the run as in any pipe', async () => {
  using place = new Place('launcher')
  const child = place.start({}, 'run', '--', 'yes')
  child.stdin.end()
  const closed = new Promise<number | null>((resolve) => child.on('close', resolve))
  child.stdout.once('data', () => child.stdout.destroy())
  expect(await closed).toBe(141)
  expect(await newestStatus(place)).toMatchObject({ status: 'cancelled', exit_code: 141 })
  expect(await leftovers(place.home)).toEqual([])
})

test('a spawned dispatch goes on without the command line that started it', async () => {
  using place = new Place('launcher')
  const spawned = await place.orangery('dispatch', 'spawn', '--', 'sh', '-c', 'sleep 1; echo late > late.txt')
  expect((await place.orangery('dispatch', 'wait', spawned.stdout.trim())).code).toBe(0)
  expect(await newestStatus(place)).toMatchObject({ status: 'completed', changeset: { files: 1 } })
  expect(await leftovers(place.home)).toEqual([])
})

test('an ordinary user gets the same: a run, a review, an apply, nothing left', async (context) => {
  using place = new Place('launcher')
  const user = ordinaryUser(place)
  if (typeof user === 'string') return context.skip(user)
  const ran = await asUser(place, user, {}, 'run', '--', 'sh', '-c', 'id -u; echo hi > new.txt')
  expect(ran).toMatchObject({ code: 0, stdout: '1000\n' })
  expect(existsSync(join(place.folder, 'new.txt'))).toBe(false)
  const listed = await asUser(place, user, {}, 'changeset', 'list', '--json')
  const [{ id }] = JSON.parse(listed.stdout) as [{ id: string }]
  expect((await asUser(place, user, {}, 'changeset', 'apply', id, '--all')).code).toBe(0)
  expect(readdirSync(place.folder)).toEqual(['new.txt'])
  expect(await leftovers(place.home)).toEqual([])
})

test('a file of another user that the agent deleted stays, is told, and keeps nothing else from review', async (context) => {
  using place = new Place('launcher')
  if (process.getuid?.() !== 0) return context.skip('only root can make a file of another user')
  const user = ordinaryUser(place)
  if (typeof user === 'string') return context.skip(user)
  const sizes = { small: 9, large: 2 * 1024 * 1024 }
  for (const [name, size] of Object.entries(sizes))
    writeFileSync(join(place.folder, name), 'x'.repeat(size), { mode: 0o600 })
  await asUser(place, user, {}, 'run', '--', 'sh', '-c', 'echo work > important; rm -f small large')
  const listed = await asUser(place, user, {}, 'changeset', 'list', '--json')
  const [{ id }] = JSON.parse(listed.stdout) as [{ id: string }]
  const shown = JSON.parse(
    (await asUser(place, user, {}, 'changeset', 'show', id, '--json')).stdout,
  ) as Changeset
  expect(shown.files.map(({ path }) => path)).toEqual(['important'])
  expect(shown.dropped.map(({ path, why }) => [path, why])).toEqual(
    ['large', 'small'].map((name) => [name, 'you may not read the original, which stays as it is']),
  )
  expect((await asUser(place, user, {}, 'changeset', 'apply', id, '--all')).code).toBe(0)
  expect(readdirSync(place.folder).toSorted()).toEqual(['important', 'large', 'small'])
})

test('commands speak to the host that serves; a second host is refused; its end leaves no socket and closes the database', async () => {
  using place = new Place('launcher')
  const host = place.start({}, 'serve', '--json')
  const end = ended(host)
  let line = ''
  for await (const chunk of host.stdout) {
    line += String(chunk)
    if (line.includes('\n')) break
  }
  const { url } = JSON.parse(line) as { url: string }
  expect(new URL(url).hostname).toBe('127.0.0.1')
  expect((await fetch(new URL('/', url))).status).toBe(401)

  const spawned = await place.orangery('dispatch', 'spawn', '--', 'touch', 'made')
  expect((await place.orangery('dispatch', 'wait', spawned.stdout.trim())).code).toBe(0)
  const second = await place.orangery('serve')
  expect(second.code).toBe(75)
  expect(second.stderr).toMatch(/^orangery: [^\n]+: [^\n]+\n {2}hint: [^\n]+\n$/)

  host.kill('SIGTERM')
  expect((await end).code).toBe(0)
  expect(await leftovers(place.home)).toEqual([])
  const sockets = filesBelow(place.home).filter((name) => /sock|token/.test(name))
  expect(sockets).toEqual([])
  // SQLite removes both when the last connection closes: the host waits for its spare supervisor.
  expect(filesBelow(place.home).filter((name) => /-(wal|shm)$/.test(name))).toEqual([])
  expect((await place.orangery('dispatch', 'list')).code).toBe(0)
})

test('two runs in one folder at once both get their own changeset', async () => {
  using place = new Place('launcher')
  writeFileSync(join(place.folder, 'shared.txt'), 'base\n')
  const both = [1, 2].map((n) =>
    place.orangery('run', '-q', '--', 'sh', '-c', `echo ${n} > shared.txt; sleep 1`),
  )
  expect((await Promise.all(both)).map(({ code }) => code)).toEqual([0, 0])
  await sleep(0)
  const listed = await place.orangery('changeset', 'list', '--json')
  expect(JSON.parse(listed.stdout)).toHaveLength(2)
  expect(await leftovers(place.home)).toEqual([])
})

test('a limit that a command ran into and coped with is told, though its exit code says nothing', async () => {
  using place = new Place()
  const copes =
    'for (1 .. 40) { my $p = fork; if (defined $p && !$p) { sleep 1; exit } } 1 while wait > 0; exit 0'
  const ran = await place.orangery('run', '--pids', '12', '--', 'perl', '-e', copes)
  expect(ran).toMatchObject({ code: 0, stderr: expect.stringMatching(/^orangery: \S+: .*limit/m) as string })
  const quiet = await place.orangery('run', '-q', '--pids', '12', '--', 'perl', '-e', copes)
  expect(quiet).toMatchObject({ code: 0, stderr: '' })
})
