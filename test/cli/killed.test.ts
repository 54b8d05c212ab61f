import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ended, Place } from '../../src/cli/testing/orangery.ts'
import { asUser, ordinaryUser } from './ordinaryUser.ts'
import { snapshot } from './snapshot.ts'
import { filesBelow, leftovers } from './traces.ts'

/** Writes, speaks to a relay of its own and goes on until it is ended. */
const lasting = ['sh', '-c', 'echo draft > draft.txt; (sleep 0.5; echo ready) & sleep 600']
// A name pinned to an address nobody listens on: enough to have a relay and a broker.
const networked = ['--allow-host', 'pinned.test:443=127.0.0.1:1']

type Process = { readonly pid: number; readonly command: string; readonly children: readonly Process[] }

function processAt(pid: number): Process {
  const read = (name: string) => {
    try {
      return readFileSync(`/proc/${pid}/${name}`, 'utf8')
    } catch {
      return ''
    }
  }
  const children = read(`task/${pid}/children`).split(' ').filter(Boolean).map(Number)
  return { pid, command: read('cmdline').replaceAll('\0', ' '), children: children.map(processAt) }
}

const flat = (process: Process): Process[] => [process, ...process.children.flatMap(flat)]

function find(root: Process, pattern: RegExp, index = 0): number {
  const found = flat(root).filter(({ command }) => pattern.test(command))[index]
  if (found === undefined) throw new Error(`no process like ${pattern}: ${JSON.stringify(flat(root))}`)
  return found.pid
}

/** Everything that is ours and could be killed, from the command line down to the command itself. */
const victims = {
  'the command line': (root: Process) => root.pid,
  unshare: (root: Process) => find(root, /^\S*unshare /),
  'the holder': (root: Process) => find(root, /^\S*sh -c .*orangery-holder/s),
  'who watches the orders': (root: Process) => find(root, /^\S*sh -c .*orangery-holder/s, 1),
  'who takes the orders': (root: Process) => find(root, /^\S*sh -c .*orangery-holder/s, 2),
  bubblewrap: (root: Process) => find(root, /^\S*bwrap /),
  'bubblewrap inside': (root: Process) => find(root, /^\S*bwrap /, 1),
  'who waits for the relay': (root: Process) => find(root, /^\S*sh -c .*orangery-relay/s),
  'the relay': (root: Process) => find(root, /relay\.\w+ \{/),
  'the command itself': (root: Process) => find(root, /^sh -c echo draft/),
  'the caretaker': (root: Process) => find(root, /orangery-caretaker/),
} as const
type Victim = keyof typeof victims

async function untilReady(child: ReturnType<Place['start']>): Promise<void> {
  let seen = ''
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    seen += String(chunk)
    if (seen.includes('ready')) return
  }
  throw new Error(`it ended early: ${seen}`)
}

/** Where temporary files of ours could lie: the shared folder, the session's and our own for sockets and locks. */
function temporaryFiles(place: Place): string[] {
  return [place.temporary, join(place.home, 'run'), join(place.dataDir, 'run'), join(place.dataDir, 'locks')]
    .flatMap((folder) => filesBelow(folder))
    .concat(filesBelow(place.dataDir).filter((path) => path.endsWith('.tmp')))
}

type Row = { readonly status: string; readonly error: string | null; readonly changeset: object | null }

async function killOne(victim: Victim, as: 'root' | 'user') {
  using place = new Place('launcher')
  const user = as === 'user' ? ordinaryUser(place) : null
  if (typeof user === 'string') return user
  const before = snapshot(place.folder)
  const args = ['run', '-q', ...networked, '--', ...lasting]
  const child = user === null ? place.start({}, ...args) : place.start(user.options, ...args)
  child.stdin.end()
  const end = ended(child)
  await untilReady(child)
  // Positive control: there is something to be left.
  expect(temporaryFiles(place).length).toBeGreaterThan(2)
  process.kill(victims[victim](processAt(child.pid ?? 0)), 'SIGKILL')
  // Who only watches or carries is not missed until it is needed: the run goes on and is ended as a person would.
  const isMissedLater = [
    'who watches the orders',
    'who waits for the relay',
    'the relay',
    'the caretaker',
  ].includes(victim)
  if (isMissedLater) {
    await sleep(300)
    child.kill('SIGTERM')
  }
  const { code } = await end
  if (!isMissedLater) expect(code).toBe(victim === 'the command line' ? null : 137)
  expect(await leftovers(place.home)).toEqual([])
  expect(snapshot(place.folder)).toEqual(before)
  // Whoever survives has tidied up by now, with nobody coming after it.
  expect(temporaryFiles(place)).toEqual([])
  const listed =
    user === null
      ? await place.orangery('dispatch', 'list', '--json')
      : await asUser(place, user, {}, 'dispatch', 'list', '--json')
  expect(temporaryFiles(place)).toEqual([])
  const [row] = JSON.parse(listed.stdout) as Row[]
  expect(row).toMatchObject({ changeset: { state: 'review', files: 1 }, error: expect.any(String) as string })
  return row
}

const expected: Readonly<Record<Victim, string>> = {
  'the command line': 'interrupted',
  unshare: 'interrupted',
  'the holder': 'interrupted',
  'who watches the orders': 'cancelled',
  'who takes the orders': 'interrupted',
  bubblewrap: 'interrupted',
  'bubblewrap inside': 'failed',
  'who waits for the relay': 'cancelled',
  'the relay': 'cancelled',
  'the command itself': 'failed',
  'the caretaker': 'cancelled',
}

test.for(Object.keys(victims) as Victim[])(
  'kill -9 of %s leaves no process, mount or temporary file, and a row that says why',
  async (victim) => {
    expect(await killOne(victim, 'root')).toMatchObject({ status: expected[victim] })
  },
)

test('kill -9 leaves nothing of an ordinary user’s run either', async (context) => {
  for (const victim of ['the command line', 'the holder', 'bubblewrap'] as const) {
    const row = await killOne(victim, 'user')
    if (typeof row === 'string') return context.skip(row)
    expect(row).toMatchObject({ status: expected[victim] })
  }
})

test('kill -9 of a run that changed nothing leaves no workspace', async () => {
  using place = new Place('launcher')
  const child = place.start({}, 'run', '-q', '--', 'sh', '-c', 'echo ready; sleep 600')
  child.stdin.end()
  const end = ended(child)
  await untilReady(child)
  child.kill('SIGKILL')
  await end
  const listed = await place.orangery('dispatch', 'list', '--json')
  expect(JSON.parse(listed.stdout)).toMatchObject([{ status: 'interrupted', changeset: null }])
  const kept = filesBelow(join(place.dataDir, 'repos')).filter((path) => path.includes('/sandboxes/'))
  expect(kept).toEqual([])
})

test('kill -9 of a run that copies its folders ends the copying', async () => {
  using place = new Place('launcher')
  const programs = join(place.home, 'programs')
  mkdirSync(programs)
  // A copy of something large.
  writeFileSync(join(programs, 'cp'), '#!/bin/sh\nwhile :; do sleep 0.1; done\n', { mode: 0o755 })
  const env = { PATH: `${programs}:${place.env['PATH']}` }
  const child = place.start({ env }, 'run', '-q', '--changeset', 'clone', '--', 'true')
  child.stdin.end()
  const end = ended(child)
  expect(await processOf(place, join(programs, 'cp'))).toBeGreaterThan(1)
  child.kill('SIGKILL')
  await end
  expect(await leftovers(place.home)).toEqual([])
})

/** The one process of a place whose command line holds a text. */
async function processOf(place: Place, text: string): Promise<number> {
  for (let tries = 0; tries < 100; tries++) {
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      const { command } = processAt(Number(pid))
      if (command.includes(text) && command.includes(place.dataDir)) return Number(pid)
    }
    await sleep(50)
  }
  throw new Error(`no process with ${text}`)
}

test('kill -9 of a supervisor leaves nothing, also while nobody looks at it', async () => {
  using place = new Place('launcher')
  const spawned = await place.orangery('dispatch', 'spawn', ...networked, '--', ...lasting)
  const id = spawned.stdout.trim()
  const output = place.start({}, 'dispatch', 'shell', id)
  await untilReady(output)
  output.kill('SIGKILL')
  process.kill(await processOf(place, 'supervisor.js'), 'SIGKILL')
  expect(await leftovers(place.home)).toEqual([])
  expect(temporaryFiles(place)).toEqual([])
  const waited = await place.orangery('dispatch', 'wait', id, '--json')
  expect(waited.code).toBe(70)
  expect(JSON.parse(waited.stdout)).toMatchObject({
    status: 'interrupted',
    error: expect.any(String) as string,
  })
  expect(temporaryFiles(place)).toEqual([])
})

async function startServing(place: Place) {
  const host = place.start({}, 'serve', '--json')
  for await (const chunk of host.stdout.iterator({ destroyOnReturn: false })) {
    if (String(chunk).includes('\n')) return host
  }
  throw new Error('serve ended early')
}

test('kill -9 of a host takes its spare and its files with it and lets agents go on', async () => {
  using place = new Place('launcher')
  const host = await startServing(place)
  const end = ended(host)
  expect(temporaryFiles(place).join()).toMatch(/host\.sock.*token/)
  const spawned = await place.orangery('dispatch', 'spawn', '--', 'sh', '-c', 'sleep 2; echo on > on.txt')
  host.kill('SIGKILL')
  await end
  const ofHost = () => temporaryFiles(place).filter((path) => /host|serve/.test(path))
  for (let tries = 0; tries < 200 && ofHost().length > 0; tries++) await sleep(100)
  expect(ofHost()).toEqual([])
  expect((await place.orangery('dispatch', 'wait', spawned.stdout.trim())).code).toBe(0)
  expect(await leftovers(place.home)).toEqual([])
  expect(temporaryFiles(place)).toEqual([])
})

test('a host that stays tidies up after a run that was killed', async () => {
  using place = new Place('launcher')
  const host = await startServing(place)
  const ofRuns = () => temporaryFiles(place).filter((path) => !/host|serve/.test(path))
  const child = place.start({}, 'run', '-q', '--', ...lasting)
  child.stdin.end()
  const end = ended(child)
  await untilReady(child)
  expect(ofRuns().length).toBeGreaterThan(0)
  child.kill('SIGKILL')
  await end
  for (let tries = 0; tries < 200 && ofRuns().length > 0; tries++) await sleep(100)
  expect(ofRuns()).toEqual([])
  const stopped = ended(host)
  host.kill('SIGTERM')
  // A terminal and a wrapper both tell of one Ctrl-C.
  host.kill('SIGINT')
  await stopped
  expect(temporaryFiles(place)).toEqual([])
  expect(await leftovers(place.home)).toEqual([])
})

test.for([
  ['success', 'true', 0],
  ['failure', 'exit 3', 3],
])('%s leaves no process, mount or temporary file', async ([, script, code]) => {
  using place = new Place('launcher')
  expect((await place.orangery('run', ...networked, '--', 'sh', '-c', String(script))).code).toBe(code)
  const spawned = await place.orangery('dispatch', 'spawn', '--wait', '--', 'sh', '-c', String(script))
  expect(spawned.code).toBe(code)
  expect(await leftovers(place.home)).toEqual([])
  expect(temporaryFiles(place)).toEqual([])
})
