import { readdirSync } from 'node:fs'
import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'

const form = /^orangery: [^\n]+: [^\n]+\n {2}hint: [^\n]+\n$/

const mistakes: readonly (readonly [number, string, readonly string[]])[] = [
  [64, 'an unknown command', ['frobnicate']],
  [64, 'an unknown option', ['run', '--nope', '--', 'true']],
  [64, 'an option without its value', ['run', '--level']],
  [64, 'a missing id', ['dispatch', 'status']],
  [64, 'a word too many', ['doctor', 'now']],
  [64, 'a run without a command', ['run']],
  [64, 'JSON from run, which passes the command’s own output on', ['run', '--json', '--', 'true']],
  [64, 'an agent and a command', ['run', '--agent', 'claude', '--', 'true']],
  [64, 'a level that does not exist', ['run', '--level', '9', '--', 'true']],
  [64, 'a phase that does not exist', ['run', '--phase', 'party', '--', 'true']],
  [
    64,
    'a spec together with contract options',
    ['run', '--sandbox-spec', '{}', '--level', '1', '--', 'true'],
  ],
  [64, 'a verdict that does not exist', ['changeset', 'decide', '2026', '--path', 'a', 'maybe']],
  [64, 'a rejection without a comment', ['changeset', 'reject', '2026']],
  [64, 'a rejection with an empty comment', ['changeset', 'reject', '2026', '--comment', ' ']],
  [64, 'an empty comment', ['changeset', 'decide', '2026', '--path', 'a', 'reject', '--comment', '']],
  [64, 'a message without a commit', ['changeset', 'apply', '2026', '--all', '--message', 'x']],
  [64, 'a commit on an empty branch', ['changeset', 'apply', '2026', '--all', '--commit=']],
  [64, 'own commits without a branch', ['changeset', 'apply', '2026', '--own']],
  [
    64,
    'a message for own commits',
    ['changeset', 'apply', '2026', '--commit', 'main', '--own', '--message', 'x'],
  ],
  [64, 'hooks without a commit', ['changeset', 'apply', '2026', '--hooks', '--dry-run']],
  [64, 'a signature without a commit', ['changeset', 'apply', '2026', '--sign']],
  [64, 'ignored files without all', ['changeset', 'apply', '2026', '--include-ignored']],
  [64, 'a port that is none', ['serve', '--port', 'http']],
  [64, 'a shell without completion', ['completion', 'tcsh']],
  [64, 'an empty legacy mode', ['run', '--sandbox=', '--', 'true']],
  [64, 'a size without its unit', ['disk', '--keep-logs', '5']],
  [64, 'a size beyond all disks', ['disk', '--keep-logs', '99999999999GB']],
  [64, 'two specs', ['run', '--sandbox-spec', '{}', '--sandbox-spec', '{}', '--', 'true']],
  [65, 'a path that is no base64', ['changeset', 'decide', '2026', '--path-b64', '!!', 'reject']],
  [65, 'a diff of such a path', ['changeset', 'diff', '2026', '--path-b64', '!!']],
  [65, 'a conflict at such a path', ['changeset', 'conflicts', '2026', '--path-b64', '!!']],
  [65, 'a choice for such a path', ['changeset', 'resolve', '2026', 'mine', '--path-b64', '!!']],
  [65, 'a crash at such a path', ['changeset', 'settle', '2026', 'mine', '--path-b64', '!!']],
  [65, 'a spec that is not JSON', ['run', '--sandbox-spec', '{', '--', 'true']],
  [65, 'a time limit beyond all time', ['run', '--timeout-s', '9'.repeat(40), '--', 'true']],
  [65, 'a spec with a wrong value', ['run', '--sandbox-spec', '{"access_mode":"some"}', '--', 'true']],
  [65, 'a variable that is not set', ['run', '--env', 'ORANGERY_NOT_SET', '--', 'true']],
  [66, 'a spec file that is not there', ['run', '--sandbox-spec', '@missing.json', '--', 'true']],
]

test.concurrent.for(mistakes)(
  '%i is the answer to %s, in two lines, leaving no trace',
  async ([code, , args]) => {
    using place = new Place('launcher')
    const ran = await place.orangery(...args)
    expect(ran.stderr).toMatch(form)
    expect(ran.code).toBe(code)
    expect(ran.stdout).toBe('')
    expect(readdirSync(place.dataDir)).toEqual([])
  },
)

test('a hostile name in an error cannot move the cursor or reorder text', async () => {
  using place = new Place('launcher')
  const ran = await place.orangery('run', '--level', '\u001b[2J\u202Egpj', '--', 'true')
  expect(ran.code).toBe(64)
  expect(ran.stderr).toContain('‹ESC›[2J‹U+202E›gpj')
  expect(ran.stderr).not.toContain('\u001b')
  expect(ran.stderr).not.toContain('\u202e')
})

test('without a command the help goes to stderr and the code is 64', async () => {
  using place = new Place('launcher')
  const ran = await place.orangery()
  expect(ran).toMatchObject({ code: 64, stdout: '' })
  expect(ran.stderr).toContain('Usage: orangery')
  expect(ran.stderr).toMatch(/\norangery: command line: no command is given\n {2}hint: [^\n]+\n$/)
})

test('the plan of a sandbox is printed one fact a line, the same for the same and different for another', async () => {
  using place = new Place('launcher')
  const plan = async (...options: string[]) => {
    const { code, stdout } = await place.orangery('preflight', '--plan', ...options, '--', 'true')
    expect(code).toBe(0)
    return stdout.slice(stdout.indexOf('\n\n')).trim().split('\n')
  }
  const [first, again, narrower] = [await plan(), await plan(), await plan('--boundary', 'readonly')]
  expect(first.length).toBeGreaterThan(10)
  expect(again).toEqual(first)
  expect(narrower).not.toEqual(first)
})
