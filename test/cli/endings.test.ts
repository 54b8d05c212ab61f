import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ended, Place } from '../../src/cli/testing/orangery.ts'
import { asUser, ordinaryUser } from './ordinaryUser.ts'
import { snapshot } from './snapshot.ts'
import { leftovers } from './traces.ts'

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
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const

test.for(endings)(
  '%s ends a run with %i and leaves nothing behind but its changeset',
  async ([signal, code]) => {
    using place = new Place('launcher')
    const before = snapshot(place.folder)
    const child = place.start({}, 'run', '-q', '--', ...lasting)
    child.stdin.end()
    const end = ended(child)
    await untilReady(child)
    child.kill(signal)
    expect((await end).code).toBe(code)
    expect(await leftovers(place.home)).toEqual([])
    expect(snapshot(place.folder)).toEqual(before)
    expect(await newestStatus(place)).toMatchObject({ changeset: { state: 'review', files: 1 } })
  },
)

test('kill -9 of a run leaves no process or mount, and what was written goes to review', async () => {
  using place = new Place('launcher')
  const before = snapshot(place.folder)
  const child = place.start({}, 'run', '--', ...lasting)
  child.stdin.end()
  const end = ended(child)
  await untilReady(child)
  child.kill('SIGKILL')
  await end
  expect(await leftovers(place.home)).toEqual([])
  expect(snapshot(place.folder)).toEqual(before)
  expect(await newestStatus(place)).toMatchObject({
    status: 'interrupted',
    changeset: { state: 'review', files: 1 },
  })
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

test('commands speak to the host that serves; a second host is refused; its end leaves no socket', async () => {
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
  const sockets = readdirSync(join(place.home, 'run'), { recursive: true }).filter((name) =>
    /sock|token/.test(String(name)),
  )
  expect(sockets).toEqual([])
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
