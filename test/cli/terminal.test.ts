import { createRequire } from 'node:module'
import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'
import { ordinaryUser, type User } from './ordinaryUser.ts'
import { leftovers } from './traces.ts'

type Pty = {
  write(data: string): void
  resize(columns: number, rows: number): void
  onData(listener: (data: string) => void): void
  onExit(listener: (end: { exitCode: number }) => void): void
}
const { spawn } = createRequire(import.meta.url)('@lydell/node-pty') as {
  spawn(file: string, args: string[], options: object): Pty
}

/** A person at a terminal: types, and reads until something shows up. */
class Person {
  readonly #pty: Pty
  #screen = ''
  #wake: () => void = () => {}
  readonly left: Promise<number>

  constructor(place: Place, as: User | null, ...args: string[]) {
    const [file = '', ...before] = [...(as?.options.through ?? []), ...place.command]
    this.#pty = spawn(file, [...before, ...args], {
      cwd: place.folder,
      env: { ...place.env, ...as?.options.env, TERM: 'xterm-256color' },
      cols: 160,
      rows: 25,
    })
    this.#pty.onData((data) => {
      this.#screen += data
      this.#wake()
    })
    this.left = new Promise((resolve) => this.#pty.onExit(({ exitCode }) => resolve(exitCode)))
  }

  type(text: string): void {
    this.#pty.write(text)
  }

  resize(columns: number, rows: number): void {
    this.#pty.resize(columns, rows)
  }

  /** Gives back what came since the last time, once it matches. */
  async sees(pattern: RegExp, patienceMs = 30_000): Promise<string> {
    const deadline = Date.now() + patienceMs
    for (;;) {
      const match = pattern.exec(this.#screen)
      if (match !== null) {
        const seen = this.#screen.slice(0, match.index + match[0].length)
        this.#screen = this.#screen.slice(seen.length)
        return seen
      }
      if (Date.now() > deadline) throw new Error(`never saw ${pattern}: ${JSON.stringify(this.#screen)}`)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 250)
        this.#wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
  }
}

const shells = [
  ['you', 1],
  ['you', 0],
  ['an ordinary user', 1],
  ['an ordinary user', 0],
] as const

test.for(shells)(
  'as %s, a shell at level %i has job control, resize, Ctrl-C, colours and its own exit code',
  async ([who, level], context) => {
    using place = new Place('launcher')
    const user = who === 'you' ? null : ordinaryUser(place)
    if (typeof user === 'string') return context.skip(user)
    const person = new Person(place, user, 'run', '--level', String(level), '--', 'bash', '--norc')
    await person.sees(/[$#] /)
    person.type('echo; tty\r')
    await person.sees(/\n\/dev\/(?:console|pts\/\d+)\r/)
    // Line feeds alone, as full-screen programs use them to go down a column, arrive as they are.
    person.type('stty -opost; printf "one-%s\\ntwo" 1; stty opost; echo\r')
    await person.sees(/one-1\ntwo/)
    person.type('stty size\r')
    await person.sees(/25 160\r/)
    person.resize(120, 40)
    person.type('sleep 1; stty size\r')
    await person.sees(/40 120\r/)
    person.type(`sh -c 'echo started-$((1 + 1)); exec sleep 500'\r`)
    await person.sees(/started-2\r/)
    person.type('\u0003')
    await person.sees(/\^C[^]*[$#] /)
    person.type('echo code=$?\r')
    await person.sees(/code=130\r/)
    person.type(`sh -c 'echo started-$((1 + 2)); exec sleep 400'\r`)
    await person.sees(/started-3\r/)
    person.type('\u001a')
    await person.sees(/Stopped[^]*[$#] /)
    person.type('fg\r')
    await person.sees(/fg\r[^]*exec sleep 400'\r/)
    // The shell says so before the terminal is the job's: a Ctrl-C in between is the shell's own.
    await expect
      .poll(() => {
        person.type('\u0003')
        return person.sees(/\^C[^]*[$#] /, 2_000).catch(() => '')
      })
      .not.toBe('')
    person.type('tput setaf 1 | od -c | head -1; echo red=$(tput colors)\r')
    await person.sees(/033[^]*red=256/)
    person.type('echo kept > kept.txt; exit 5\r')
    await person.sees(/1 change \(\+1 -0\), waiting for review/)
    expect(await person.left).toBe(5)
    expect(await leftovers(place.home)).toEqual([])
  },
)

test('a person can join a running dispatch, leave it running and come back', async () => {
  using place = new Place('launcher')
  const spawned = await place.orangery('dispatch', 'spawn', '--', 'bash', '--norc')
  const id = spawned.stdout.trim()
  const first = new Person(place, null, 'dispatch', 'shell', id)
  await first.sees(/\$ /)
  first.type('echo one-$((1 + 1))\r')
  await first.sees(/one-2\r/)
  first.type('\u001d')
  expect(await first.left).toBe(0)
  const second = new Person(place, null, 'dispatch', 'shell', id)
  await second.sees(/one-2\r/)
  second.type('exit 6\r')
  expect(await second.left).toBe(6)
  expect(await leftovers(place.home)).toEqual([])
})

test('a terminal that has no size joins a running dispatch, which keeps its own', async () => {
  using place = new Place('launcher')
  const spawned = await place.orangery('dispatch', 'spawn', '--', 'bash', '--norc')
  const sizeless = { options: { through: ['sh', '-c', 'stty cols 0 rows 0; exec "$@"', 'sh'], env: {} } }
  const person = new Person(place, sizeless, 'dispatch', 'shell', spawned.stdout.trim())
  await person.sees(/\$ /)
  person.type('echo size-$(stty size | tr " " -)\r')
  await person.sees(/size-[1-9]\d*-[1-9]\d*\r/)
  person.type('exit 6\r')
  expect(await person.left).toBe(6)
})

test('names that would drive a terminal are shown as what they are', async () => {
  using place = new Place('launcher')
  await place.orangery(
    'run',
    '-q',
    '--name',
    'a\u001b]0;owned\u0007b',
    '--',
    'bash',
    '-c',
    String.raw`> $'x\e[2Jy'`,
  )
  const person = new Person(place, null, 'dispatch', 'list')
  expect(await person.sees(/a‹ESC›\]0;owned‹BEL›b/)).not.toContain('\u001b]0')
  const changes = new Person(place, null, 'changeset', 'list')
  const [, id = ''] = /(\d{14}-[0-9a-f]{4})/.exec(await changes.sees(/\d{14}-[0-9a-f]{4}/)) ?? []
  const shown = new Person(place, null, 'changeset', 'show', id)
  expect(await shown.sees(/x‹ESC›\[2Jy/)).not.toContain('\u001b[2J')
  const diff = new Person(place, null, 'changeset', 'diff', id)
  expect(await diff.sees(/diff --git/)).not.toContain('\u001b[2J')
  await Promise.all([person, changes, shown, diff].map(({ left }) => left))
})
