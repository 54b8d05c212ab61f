import { mkdir, readdir, writeFile } from 'node:fs/promises'
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
