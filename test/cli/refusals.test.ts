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

test('a folder that is not there fails before anything starts', async () => {
  using place = new Place('launcher')
  const ran = await place.orangery('run', '--dir', 'missing', '--', 'true')
  expect([65, 66, 69]).toContain(ran.code)
  expect(ran.stderr).toMatch(/^orangery: .*missing/)
  expect(await leftovers(place.home)).toEqual([])
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

  const user = ordinaryUser(place)
  if (typeof user === 'string') return context.skip(user)
  const closed = join(place.home, 'closed')
  mkdirSync(closed, { mode: 0o700 })
  const elsewhere = await asUser(place, user, {}, 'run', '--dir', closed, '--', 'true')
  expect(elsewhere.code).toBe(69)
  expect(elsewhere.stderr).toContain('ask its owner')
  const locked = join(place.home, 'locked')
  mkdirSync(locked)
  chmodSync(locked, 0o555)
  const ran = await asUser(place, user, { ORANGERY_DATA_DIR: join(locked, 'data') }, 'run', '--', 'true')
  expect(ran.code).toBe(73)
  expect(ran.stderr).toMatch(form)
})
