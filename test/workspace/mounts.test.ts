import { execFileSync } from 'node:child_process'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'

/** A mount namespace of its own, in which the command line is started once `setup` has been done. */
const within = (setup: string) => [
  'unshare',
  ...(process.getuid?.() === 0 ? [] : ['-Ur']),
  '-m',
  'sh',
  '-ec',
  `${setup}; exec "$@"`,
  'sh',
]

type Report = { ok: boolean; checks: { name: string; ok: boolean; detail: string }[] }

test('a filesystem mounted inside a root is found before anything is made, and named', async () => {
  using place = new Place('launcher')
  const inner = join(place.folder, 'deep', 'a \\ "b"')
  await mkdir(inner, { recursive: true })
  await writeFile(join(place.folder, 'a.txt'), 'one\n')
  const ask = async (setup: string) => {
    const ran = await place.orangeryWith({ through: within(setup) }, 'preflight', '--json', '--', 'true')
    const check = (JSON.parse(ran.stdout) as Report).checks.find(({ name }) => name === 'mounts inside')
    return { code: ran.code, check }
  }
  // The control: the same way in, with nothing mounted there.
  expect((await ask(':')).check).toMatchObject({ ok: true })
  const mount = `mount -t tmpfs none '${inner}'`
  const found = await ask(mount)
  expect(found).toMatchObject({ code: 69, check: { ok: false } })
  expect(found.check?.detail).toContain(inner)

  const ran = await place.orangeryWith({ through: within(mount) }, 'run', '--', 'touch', 'new.txt')
  expect(ran.code).toBe(69)
  expect(ran.stderr).toContain('mounted inside')
  expect(await readdir(join(place.dataDir, 'repos')).catch(() => [])).toEqual([])
  expect(await readdir(place.folder)).toEqual(['a.txt', 'deep'])

  for (const [strategy, why] of [
    ['none', 'which no boundary would hold'],
    ['clone', 'which a copy does not go into'],
  ] as const) {
    const asked = ['run', '--changeset', strategy, '--', 'true']
    const refused = await place.orangeryWith({ through: within(mount) }, ...asked)
    expect(refused).toMatchObject({ code: 69, stderr: expect.stringContaining(why) as string })
  }
  const bare = ['run', '--level', '0', '--changeset', 'none', '--', 'true']
  expect((await place.orangeryWith({ through: within(mount) }, ...bare)).code).toBe(0)

  // A narrower root, beside the mount, is what the hint says.
  await mkdir(join(place.folder, 'beside'))
  const beside = await place.orangeryWith(
    { through: within(mount), cwd: join(place.folder, 'beside') },
    'preflight',
    '--json',
    '--',
    'true',
  )
  const { checks } = JSON.parse(beside.stdout) as Report
  expect(checks.find(({ name }) => name === 'mounts inside')).toMatchObject({ ok: true })
})

test('one folder shown at two paths by a bind mount is refused as the same root twice', async () => {
  using place = new Place('launcher')
  const [one, two] = [join(place.folder, 'one'), join(place.folder, 'two')]
  await mkdir(one)
  await mkdir(two)
  const options = ['--dir', one, '--dir', two, '--', 'true']
  expect((await place.orangeryWith({ through: within(':') }, 'preflight', ...options)).code).toBe(0)
  const bound = await place.orangeryWith(
    { through: within(`mount --bind ${one} ${two}`) },
    'preflight',
    ...options,
  )
  expect(bound.code).toBeOneOf([65, 69])
  expect(bound.stdout + bound.stderr).toContain('the same folder as')
})

test('what is mounted in a worktree is never removed with it: its end is refused, and past its time the archive keeps it', async () => {
  using place = new Place('launcher')
  const precious = join(place.home, 'precious')
  await mkdir(precious)
  await writeFile(join(precious, 'gold'), 'gold')
  execFileSync('sh', [
    '-c',
    `cd '${place.folder}' && git init -q -b main && echo one > a.txt && git add -A &&
     git -c user.name=U -c user.email=u@v commit -qm first`,
  ])
  const made = await place.orangery('worktree', 'create', '--repo', '.', '--name', 'w', '--json')
  const { worktree_id: id, tree_path: tree } = JSON.parse(made.stdout) as Record<string, string>
  const point = `${tree}/mounted`
  await mkdir(point)
  await writeFile(`${tree}/mine.txt`, 'mine')

  const bound = (at: string) => ({ through: within(`mount --bind '${precious}' '${at}'`) })
  const refused = await place.orangeryWith(bound(point), 'worktree', 'rm', 'w', '--force')
  expect(refused).toMatchObject({ code: 75 })
  expect(refused.stderr).toContain(point)
  expect(await readdir(precious)).toEqual(['gold'])

  // The control: without a mount the same word ends it.
  expect((await place.orangery('worktree', 'rm', 'w', '--force')).code).toBe(0)
  const archived = join(place.dataDir, 'archive', String(id))
  const record = join(archived, 'record.json')
  const text = await readFile(record, 'utf8')
  await writeFile(record, text.replace(/"expires_at": "\d{4}/, '"expires_at": "2020'))
  const kept = join(archived, 'content', 'mounted')
  const listed = await place.orangeryWith(bound(kept), 'agent', 'archive')
  expect(listed.code).toBe(0)
  expect(listed.stderr).toContain(`${kept} is mounted in it`)
  expect(await readFile(join(precious, 'gold'), 'utf8')).toBe('gold')
  expect(await readFile(join(archived, 'content', 'mine.txt'), 'utf8')).toBe('mine')
  expect((await place.orangery('agent', 'archive')).stdout).toContain('empty')
  expect(await readdir(precious)).toEqual(['gold'])
})

test('a folder that a bind mount shows from inside another root is refused as one inside it, in either order', async () => {
  using place = new Place('launcher')
  const [outer, shown] = [join(place.folder, 'outer'), join(place.folder, 'shown')]
  const sub = join(outer, 'sub')
  await mkdir(join(sub, 'deeper'), { recursive: true })
  await mkdir(shown)
  for (const [first, second] of [
    [outer, shown],
    [shown, outer],
  ] as const) {
    const ask = ['preflight', '--dir', first, '--dir', second, '--', 'true']
    expect((await place.orangeryWith({ through: within(':') }, ...ask)).code).toBe(0)
    for (const from of [sub, join(sub, 'deeper')]) {
      const through = within(`mount --bind ${from} ${shown}`)
      const bound = await place.orangeryWith({ through }, ...ask)
      expect(bound.code).toBeOneOf([65, 69])
      expect(bound.stdout + bound.stderr).toContain(`${shown} lies inside ${outer}`)
    }
  }
})

test('a landing and an agent keep apart also where a bind mount shows the folder of one at the path of the other', async () => {
  using place = new Place('launcher')
  const [one, two, other] = ['one', 'two', 'other'].map((name) => join(place.folder, name))
  for (const folder of [`${one}/deep`, two!, other!]) await mkdir(folder, { recursive: true })
  const source = (path: string) => JSON.stringify(join(import.meta.dirname, '../../src/engine', path))
  const script = `
    import { claimCopying, claimLanding } from ${source('workspace/find/claim.ts')}
    import { layout } from ${source('base/paths.ts')}
    const place = layout(${JSON.stringify(place.dataDir)})
    const [landing, agent] = ['20260101000000-0001', '20260101000000-0002']
    const copies = (path) => claimCopying(place, { repoId: '0123456789abcdef', id: agent }, [path], { timeoutMs: 0 })
    const lands = (path) => claimLanding(place, { id: landing, paths: [path] })
    const said = []
    for (const [first, second] of [[lands, copies], [copies, lands]])
      for (const [path, alias] of [['one', 'two/deep'], ['one/deep', 'two'], ['one', 'other']]) {
        await using held = await first(${JSON.stringify(place.folder)} + '/' + path)
        said.push(await second(${JSON.stringify(place.folder)} + '/' + alias).then(
          async (claim) => (await claim[Symbol.asyncDispose](), 'free'), (error) => error.code))
      }
    process.stdout.write(JSON.stringify(said))`
  const [file, ...prefix] = within(`mount --bind '${one}' '${two}'`)
  const told = execFileSync(file!, [...prefix, process.execPath, '--input-type=module', '-e', script])
  const [landing, running] = ['workspace.landing', 'workspace.agent_running']
  expect(JSON.parse(told.toString())).toEqual([landing, landing, 'free', running, running, 'free'])
})
