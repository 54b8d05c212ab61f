import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'
import { asUser, ordinaryUser } from './ordinaryUser.ts'
import { leftovers } from './traces.ts'

const form = /^orangery: [^\n]+: [^\n]+\n( {2}hint: [^\n]+\n)?$/

async function rows(place: Place): Promise<{ status: string }[]> {
  const listed = await place.orangery('dispatch', 'list', '--json')
  return JSON.parse(listed.stdout) as { status: string }[]
}

test('bad input is told in two lines with its code and leaves no row', async () => {
  using place = new Place('launcher')
  const cases: [number, string[]][] = [
    [66, ['run', '--agent', 'nobody-knows', '--prompt', 'x']],
    [65, ['run', '--sandbox-spec', '{"limits":{"pids":-1}}', '--', 'true']],
    [65, ['run', '--dir', '.', '--sandbox-spec', '{"roots":["/usr"]}', '--', 'true']],
    [73, ['run', '--summary', 'no/where.json', '--', 'true']],
    [73, ['run', '--summary', '.', '--', 'true']],
    [66, ['dispatch', 'status', '20200101000000-0000']],
    [66, ['dispatch', 'events', '2020']],
    [66, ['dispatch', 'wait', 'nonsense']],
    [66, ['changeset', 'show', '20200101000000-0000']],
    [66, ['changeset', 'apply', '20200101000000-0000', '--all']],
  ]
  for (const [code, args] of cases) {
    const ran = await place.orangery(...args)
    expect({ args, code: ran.code, stderr: ran.stderr }).toEqual({
      args,
      code,
      stderr: expect.stringMatching(form) as string,
    })
    expect(ran.stdout).toBe('')
  }
  expect(await rows(place)).toEqual([])
})

test('whoever stands where his keys are kept shows them to no agent', async () => {
  using place = new Place('launcher')
  for (const name of ['.ssh', '.config/gh', '.config/nvim']) {
    mkdirSync(join(place.home, name), { recursive: true })
    writeFileSync(join(place.home, name, 'token'), `of ${name}`)
  }
  const read = (name: string, file: string) =>
    place.orangeryWith({ cwd: join(place.home, name) }, 'run', '-q', '--', 'cat', file)
  for (const [name, file] of [
    ['.ssh', 'token'],
    ['.config', 'gh/token'],
    ['.config/gh', 'token'],
  ] as const) {
    const ran = await read(name, file)
    expect(ran.stderr).toMatch(/ where keys and tokens are kept\n +hint: Name the folder of one project/)
    expect(ran).toMatchObject({ code: 69, stdout: '' })
  }
  // The control: beside them an agent works.
  expect(await read('.config/nvim', 'token')).toMatchObject({ code: 0, stdout: 'of .config/nvim' })
})

test('at level 0 a copy is refused, since the agent would write the real files in its place', async () => {
  using place = new Place('launcher')
  const write = ['--', 'sh', '-c', 'echo written > new.txt']
  const copied = await place.orangery('run', '--level', '0', '--changeset', 'clone', ...write)
  expect(copied).toMatchObject({
    code: 69,
    stderr: expect.stringMatching(
      /level 0 cannot show the agent a copy in its place: it sees .*\n +hint: Choose `--changeset overlay`.* or `--level 1`/,
    ) as string,
  })
  expect(existsSync(join(place.folder, 'new.txt'))).toBe(false)
  // The control: the real files are written where that was asked for.
  expect((await place.orangery('run', '--level', '0', '--changeset', 'none', ...write)).code).toBe(0)
  expect(existsSync(join(place.folder, 'new.txt'))).toBe(true)
})

test('a summary is also written of what failed its checks, and none of an earlier run is left in its place', async () => {
  using place = new Place('launcher')
  const file = join(place.folder, '..', 'summary.json')
  writeFileSync(file, '{"status":"completed"}')
  const limit = ['--changeset', 'none', '--disk-mb', '5']
  const ran = await place.orangery('run', ...limit, '--summary', file, '--', 'true')
  expect(ran).toMatchObject({ code: 69, stderr: expect.stringMatching(form) as string })
  const written = readFileSync(file, 'utf8')
  const { id, status } = JSON.parse(written) as { id: string; status: string }
  expect(status).toBe('preflight_failed')
  expect(written).toBe((await place.orangery('dispatch', 'status', id, '--json')).stdout)
})

test('the quiet are told that the workspace is less than was asked for, and nothing else', async () => {
  using place = new Place('launcher')
  writeFileSync(join(place.folder, 'a.txt'), 'a')
  const loud = await place.orangery('run', '--changeset', 'clone', '--', 'touch', 'new.txt')
  expect(loud.stderr).toContain('waiting for review')
  const notes = loud.stderr.split('\n').filter((line) => line.includes('note: workspace by'))
  const quiet = await place.orangery('run', '-q', '--changeset', 'clone', '--', 'touch', 'new.txt')
  expect(quiet.stderr).toBe(notes.map((note) => `${note}\n`).join(''))
})

test('a folder that is not there fails before anything starts', async () => {
  using place = new Place('launcher')
  const ran = await place.orangery('run', '--dir', 'missing', '--', 'true')
  expect([65, 66, 69]).toContain(ran.code)
  expect(ran.stderr).toMatch(/^orangery: .*missing/)
  expect(await leftovers(place.home)).toEqual([])
})

test('a folder whose name is no text is told as such where one stands in it', async () => {
  using place = new Place('launcher')
  const through = ['sh', '-c', 'd=$(printf "bad\\377name"); mkdir -p "$d"; cd "$d"; exec "$@"', 'sh']
  const ran = await place.orangeryWith({ through }, 'run', '--', 'true')
  expect(ran).toMatchObject({ code: 69, stderr: expect.stringMatching(form) as string })
  expect(ran.stderr).toContain('not written in UTF-8')
})

test('a command that is not there or cannot be executed is told in our words, with a shell’s code', async () => {
  using place = new Place('launcher')
  writeFileSync(join(place.folder, 'plain.txt'), 'no program')
  const cases = [
    ['no-such-command', 127, 'no such command in the sandbox'],
    ['./plain.txt', 126, 'it is not executable'],
  ] as const
  for (const [command, code, why] of cases) {
    const ran = await place.orangery('run', '--', command)
    expect(ran).toMatchObject({ code, stderr: expect.stringMatching(form) as string })
    expect(ran.stderr).toContain(`${command}: ${why}`)
  }
  expect(await rows(place)).toMatchObject(
    cases.toReversed().map(([command, code, why]) => ({
      status: 'failed',
      exit_code: code,
      error: `${command}: ${why}`,
    })),
  )
})

test('a program of the home is told before an agent starts, and after a command did not, with what to grant', async () => {
  using place = new Place('launcher')
  const bin = join(place.home, 'tools', 'bin')
  mkdirSync(bin, { recursive: true })
  writeFileSync(join(bin, 'mytool'), '#!/bin/sh\necho started\n')
  chmodSync(join(bin, 'mytool'), 0o755)
  const agents = join(place.home, 'config/orangery/agents')
  mkdirSync(agents, { recursive: true })
  const card = (id: string, more: object) =>
    writeFileSync(join(agents, `${id}.json`), JSON.stringify({ id, name: id, ...more }))
  card('bare', { command: ['mytool'] })
  card('granted', { command: ['mytool'], sandboxRequirements: { read: ['~/tools/bin'] } })
  card('by-path', { command: ['~/tools/bin/mytool'], sandboxRequirements: { read: ['~/tools/bin'] } })
  card('nowhere', { command: ['no-such-agent-xyz'] })
  const env = { PATH: `${place.env['PATH']}:${bin}` }
  for (const id of ['bare', 'nowhere']) {
    const ran = await place.orangeryWith({ env }, 'run', '--agent', id)
    expect(ran).toMatchObject({ code: 69, stderr: expect.stringContaining('preflight: command: ') })
  }
  const told = await place.orangeryWith({ env }, 'preflight', '--agent', 'bare')
  expect(told.code).toBe(69)
  expect(told.stdout + told.stderr).toContain('Add "~/tools/bin" to sandboxRequirements.read')
  for (const id of ['granted', 'by-path']) {
    const ran = await place.orangeryWith({ env }, 'run', '--agent', id)
    expect(ran).toMatchObject({ code: 0, stdout: expect.stringContaining('started') })
  }
  const plain = await place.orangeryWith({ env }, 'run', '--', 'mytool')
  expect(plain).toMatchObject({ code: 127, stderr: expect.stringMatching(form) as string })
  expect(plain.stderr).toContain('no such command in the sandbox: ~/tools/bin/mytool is not shown')
  expect(plain.stderr).toContain('sandboxRequirements.read')
})

test('an ambiguous start of an id is not guessed at', async () => {
  using place = new Place('launcher')
  await place.orangery('run', '--', 'true')
  await place.orangery('run', '--', 'true')
  const ran = await place.orangery('dispatch', 'status', '20')
  expect(ran.code).toBe(66)
  expect(ran.stderr).toMatch(form)
})

test('what this host cannot do fails preflight with 69 and its reasons, never unsandboxed', async () => {
  using place = new Place('launcher')
  const witness = join(place.home, 'witness')
  const ran = await place.orangery('run', '--level', 'vm', '--', 'touch', witness)
  expect(ran.code).toBe(69)
  expect(ran.stderr).toMatch(/^orangery: preflight: /)
  expect(existsSync(witness)).toBe(false)
  expect(await rows(place)).toMatchObject([{ status: 'preflight_failed' }])
  const checked = await place.orangery('preflight', '--level', 'vm', '--json', '--', 'true')
  expect(checked.code).toBe(69)
  expect(JSON.parse(checked.stdout)).toMatchObject({ ok: false })
  expect(await rows(place)).toHaveLength(1)
})

test('a database that is none is refused, told and left as it is', async () => {
  using place = new Place('launcher')
  const database = join(place.dataDir, 'orangery.db')
  writeFileSync(database, 'this is not a database at all, but a text of some length\n'.repeat(100))
  const ran = await place.orangery('run', '--', 'true')
  expect(ran.code).not.toBe(0)
  expect(ran.stderr).toMatch(form)
  // What it says about the machine needs no records.
  const seen = await place.orangery('doctor', '--json')
  expect(seen.code).toBe(ran.code)
  expect(JSON.parse(seen.stdout)).toMatchObject({ levels: { length: 4 }, records: { ok: false } })
  const told = await place.orangery('doctor')
  expect(told.code).toBe(ran.code)
  expect(told.stdout).toMatch(/level 1, [^]*records\n {2}no {2}database: .+\n {6}fix: /)
  expect(readFileSync(database, 'utf8')).toContain('this is not a database')
})

test('a folder that may not be read, and a data folder that cannot be made or written, are told', async (context) => {
  using place = new Place('launcher')
  const file = join(place.home, 'file')
  writeFileSync(file, '')
  const inFile = await place.orangeryWith(
    { env: { ORANGERY_DATA_DIR: join(file, 'data') } },
    'run',
    '--',
    'true',
  )
  expect(inFile.code).toBe(73)
  expect(inFile.stderr).toMatch(form)
  // To the doctor it is one of the things this host cannot do.
  const seen = await place.orangeryWith({ env: { ORANGERY_DATA_DIR: join(file, 'data') } }, 'doctor')
  expect(seen).toMatchObject({ code: 0, stderr: '' })
  expect(seen.stdout).toMatch(
    /no {2}data folder: .* cannot be written .*\n {6}fix: export ORANGERY_DATA_DIR=/,
  )

  const user = ordinaryUser(place)
  if (typeof user === 'string') return context.skip(user)
  const closed = join(place.home, 'closed')
  const isOurs = process.getuid?.() !== 0
  mkdirSync(closed, { mode: isOurs ? 0 : 0o700 })
  const elsewhere = await asUser(place, user, {}, 'run', '--dir', closed, '--', 'true')
  expect(elsewhere.code).toBe(69)
  expect(elsewhere.stderr).toContain(isOurs ? `chmod u+rx '${closed}'` : 'ask its owner')
  const locked = join(place.home, 'locked')
  mkdirSync(locked)
  chmodSync(locked, 0o555)
  const ran = await asUser(place, user, { ORANGERY_DATA_DIR: join(locked, 'data') }, 'run', '--', 'true')
  expect(ran.code).toBe(73)
  expect(ran.stderr).toMatch(form)
})
