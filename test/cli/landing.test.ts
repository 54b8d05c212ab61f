import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ended, Place } from '../../src/cli/testing/orangery.ts'

const idOf = async (place: Place): Promise<string> => {
  const { stdout } = await place.orangery('changeset', 'list', '--json')
  return (JSON.parse(stdout) as { id: string }[])[0]?.id ?? ''
}
const user = (place: Place, script: string): string =>
  execFileSync('sh', ['-ec', script], { cwd: place.folder, env: place.env }).toString()
const setUp = 'git init -q -b main; git config user.name U; git config user.email u@x'

test('Ctrl-C during an apply is answered, and the apply is done as a whole', async () => {
  using place = new Place('launcher')
  await place.orangery('run', '-q', '--', 'sh', '-c', 'for i in $(seq 1 2000); do echo $i > f$i; done')
  const child = place.start({}, 'changeset', 'apply', await idOf(place), '--all')
  const running = ended(child)
  while (child.exitCode === null && readdirSync(place.folder).length === 0) await sleep(2)
  child.kill('SIGINT')
  const { code, stdout, stderr } = await running
  expect(stderr).toContain('apply: it is done as a whole or not at all')
  expect(code).toBe(0)
  expect(stdout).toContain('2000 files applied')
  expect(readdirSync(place.folder)).toHaveLength(2000)
})

test('a repeated apply tells the commit it made, and an undo that decisions stay until they are taken back', async () => {
  using place = new Place('launcher')
  user(
    place,
    `${setUp}; echo a > a; git add a; git commit -qm one
    printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit`,
  )
  await place.orangery('run', '-q', '--', 'sh', '-c', 'echo b > a; echo n > n')
  const id = await idOf(place)
  const changeset = (...args: string[]) => place.orangery('changeset', ...args)
  const commit = ['--commit', 'main', '--message', 'm', '--hooks']
  expect(await changeset('apply', id, '--all', ...commit)).toMatchObject({ code: 73 })
  user(place, 'rm .git/hooks/pre-commit')
  const again = await changeset('apply', id, ...commit)
  expect(again).toMatchObject({ code: 0, stderr: '' })
  expect(again.stdout).toContain(`commit  ${user(place, 'git rev-parse main').slice(0, 12)} on main`)
  expect((await changeset('undo', id)).stdout).toContain(`orangery changeset decide ${id} --path . none`)
  expect((await changeset('decide', id, '--path', '.', 'none')).code).toBe(0)
  expect((await changeset('apply', id)).code).toBe(77)
  expect(existsSync(join(place.folder, 'n'))).toBe(false)
})

test('a landing of files that were applied before does not say that none landed', async () => {
  using place = new Place('launcher')
  user(place, `${setUp}; echo a > a; git add a; git commit -qm one`)
  await place.orangery('worktree', 'create', '--repo', '.', '--name', 'w')
  await place.orangery('run', '-q', '--worktree', 'w', '--', 'sh', '-c', 'echo b > a')
  const id = await idOf(place)
  expect(await place.orangery('changeset', 'apply', id, '--all')).toMatchObject({ code: 0 })
  const { code, stdout } = await place.orangery('agent', 'land', id)
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: expect.stringMatching(`${id}: its work is on agency/w-[0-9a-f]{4} as `) as unknown,
  })
})

test('of several roots the one is named in what applies and what is skipped, and hunks and comments are told in text', async () => {
  using place = new Place('launcher')
  for (const name of ['a/proj', 'b/proj']) mkdirSync(join(place.folder, name), { recursive: true })
  user(place, 'for f in a b; do seq 30 > $f/proj/f; done')
  const [a, b] = ['a/proj', 'b/proj'].map((name) => join(place.folder, name)) as [string, string]
  const agent = `sed -i 's/^2$/two/; s/^28$/x/' ${a}/f; echo n >> ${b}/f`
  await place.orangery('run', '-q', '--dir', a, '--dir', b, '--', 'sh', '-c', agent)
  const id = await idOf(place)
  const changeset = async (...args: string[]) => (await place.orangery('changeset', ...args)).stdout
  expect(await changeset('list')).toMatch(new RegExp(`(?:ago|just now) +${a}, ${b}`))
  await changeset('decide', id, '--path', 'f', '--root', b, 'approve')
  const hunks = [...(await changeset('show', id, '--hunks')).matchAll(/hunk ([0-9a-f]+) /g)].map(
    ([, name]) => name ?? '',
  )
  expect(hunks).toHaveLength(3)
  const said = ['--comment', 'please not']
  const shown = await changeset(
    'decide',
    id,
    '--path',
    'f',
    '--root',
    a,
    '--hunk',
    hunks[0] ?? '',
    'reject',
    ...said,
  )
  expect(shown).toContain('1 of 2 hunks')
  expect(shown).toMatch(new RegExp(`on hunk ${hunks[0]}: please not`))
  expect(shown).toMatch(new RegExp(`hunk ${hunks[0]} +reject`))
  const applied = await changeset('apply', id)
  expect(applied).toContain(`applied  ${b}: f`)
  expect(applied).toContain(`skipped  ${a}: f: `)
})

test("the agent's own commits land on the branch of a linked worktree that it worked in", async () => {
  using place = new Place('launcher')
  user(place, `${setUp}; seq 9 > a; git add a; git commit -qm one; git worktree add -q ../linked -b side`)
  const linked = join(place.folder, '../linked')
  const script = 'echo 2 >> a; git -c user.name=A -c user.email=a@x commit -qam own'
  await place.orangery('run', '-q', '--dir', linked, '--', 'sh', '-c', script)
  const id = await idOf(place)
  const landing = await place.orangery('changeset', 'apply', id, '--all', '--commit', 'side', '--own')
  expect(landing).toMatchObject({ code: 0, stderr: '' })
  expect(user(place, 'git log --format=%s side; git -C ../linked status --short; tail -1 ../linked/a')).toBe(
    'own\none\n2\n',
  )
  // The control: a branch that stands checked out elsewhere stays where it is.
  await place.orangery('run', '-q', '--dir', linked, '--', 'sh', '-c', script)
  const other = await place.orangery(
    'changeset',
    'apply',
    await idOf(place),
    '--all',
    '--commit',
    'main',
    '--own',
  )
  expect(other).toMatchObject({ code: 65, stderr: expect.stringContaining('checked out') as string })
})

test('a worktree that no sandbox can be made on is refused before there is a row, with the way out', async () => {
  using place = new Place('launcher')
  user(place, `${setUp}; echo a > a; git add a; git commit -qm one`)
  await place.orangery('worktree', 'create', '--repo', '.', '--name', 'w')
  const tree = user(place, 'git worktree list --porcelain | grep ^worktree | tail -1').slice(9).trim()
  user(place, `git -C '${tree}' branch -m renamed`)
  for (const [word, ...args] of [
    ['run', '-q'],
    ['dispatch', 'spawn', '--wait'],
  ] as const) {
    const refused = await place.orangery(word, ...args, '--worktree', 'w', '--', 'true')
    expect(refused).toMatchObject({
      code: 65,
      stderr: expect.stringContaining('branch -m agency/w-') as string,
    })
  }
  expect(JSON.parse((await place.orangery('dispatch', 'list', '--json')).stdout)).toEqual([])
})

test('a changeset whose stored objects are damaged can be given up, and that it cannot be read is told', async () => {
  using place = new Place('launcher')
  user(place, 'echo a > a')
  await place.orangery('run', '-q', '--', 'sh', '-c', 'echo b > a')
  const id = await idOf(place)
  user(
    place,
    `find "$ORANGERY_DATA_DIR" -type f -path '*/objects/*' | while read -r f; do chmod u+w "$f"; echo junk > "$f"; done`,
  )
  // The control: nothing else can be done with it.
  expect((await place.orangery('changeset', 'show', id)).code).toBe(70)
  const given = await place.orangery('changeset', 'abandon', id)
  expect(given).toMatchObject({ code: 0, stderr: expect.stringContaining('it cannot be read') })
  expect(given.stdout).toContain('what is left of it kept for 30 days')
})
