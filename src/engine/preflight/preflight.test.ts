import { link, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { agentCardSchema } from '../../shared/card.ts'
import { run } from '../base/process.ts'
import {
  checkAuth,
  checkConfigApart,
  checkDisk,
  checkPlatform,
  checkNoIntegrationMarker,
  checkReachable,
  runChecks,
  checkNotGitFolder,
  checkWorkingDir,
} from './index.ts'

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'orangery-preflight-'))
})
afterEach(() => rm(dir, { recursive: true }))

const good = { name: 'good', ok: true, detail: '', fix: null }

test('every check runs and every failure is reported when one fails', async () => {
  const report = await runChecks({
    one: async () => ({ ...good, name: 'one', ok: false }),
    two: async () => good,
    three: async () => [{ ...good, name: 'three', ok: false }],
  })
  expect(report.ok).toBe(false)
  expect(report.checks.filter((check) => !check.ok).map((check) => check.name)).toEqual(['one', 'three'])
})

test('a check that breaks has failed, with the reason', async () => {
  const report = await runChecks({
    broken: async () => {
      throw new Error('no such thing')
    },
  })
  expect(report).toMatchObject({
    ok: false,
    checks: [{ name: 'broken', ok: false, detail: 'no such thing' }],
  })
})

test('a root must exist and be a folder', async () => {
  await writeFile(join(dir, 'file'), '')
  expect(await checkReachable(dir)).toMatchObject({ ok: true })
  expect(await checkReachable(join(dir, 'file'))).toMatchObject({ ok: false, detail: 'it is not a folder' })
  expect(await checkReachable(join(dir, 'gone'))).toMatchObject({ ok: false, detail: 'it does not exist' })
  const noText = await checkReachable(join(dir, 'caf\u{FFFD}'))
  expect(noText).toMatchObject({
    ok: false,
    detail: expect.stringContaining('not written in UTF-8') as string,
  })
})

test('a tree with an integration marker is never written directly, nor a folder in it or around it', async () => {
  const tree = join(dir, 'around', 'tree')
  await mkdir(join(tree, 'src'), { recursive: true })
  const answers = () =>
    Promise.all(
      [tree, join(tree, 'src'), join(dir, 'around')].map(async (root) => {
        return (await checkNoIntegrationMarker(root)).ok
      }),
    )
  expect(await answers()).toEqual([true, true, true])
  await mkdir(join(tree, '.agency'))
  await writeFile(join(tree, '.agency', 'INTEGRATION_MARKER'), '')
  expect(await answers()).toEqual([false, false, false])
})

test('a git folder, or anything in it, is no project', () => {
  expect(checkNotGitFolder('/home/ada/shop')).toMatchObject({ ok: true })
  expect(checkNotGitFolder('/home/ada/shop/.git')).toMatchObject({ ok: false })
  expect(checkNotGitFolder('/home/ada/shop/.git/hooks')).toMatchObject({ ok: false })
})

test('a working directory outside of the roots is refused before anything starts', () => {
  expect(checkWorkingDir('/a/b', ['/a'])).toMatchObject({ ok: true })
  expect(checkWorkingDir('/ab', ['/a'])).toMatchObject({ ok: false })
})

test('more disk than there is fails before anything starts', async () => {
  expect(await checkDisk(dir, undefined)).toMatchObject({ ok: true })
  expect(await checkDisk(dir, 1e12)).toMatchObject({
    ok: false,
    fix: expect.stringContaining('ORANGERY_DATA_DIR'),
  })
})

test('a full copy that does not fit fails before anything starts, and one that fits does not', async () => {
  // A disk of 100 MB, in a mount namespace of its own.
  const script = `mount -t tmpfs -o size=100m none "$1"; mkdir "$1/small" "$1/large"
    head -c 20000000 /dev/urandom >"$1/large/a"; head -c 1000000 /dev/urandom >"$1/small/a"
    exec "$2" --disable-warning=ExperimentalWarning --input-type=module -e "$3" "$1" "$4"`
  const ask = `const { checkCopy } = await import(process.argv[2])
    const at = (name) => process.argv[1] + '/' + name
    const checks = [await checkCopy(process.argv[1], [at('small')]), await checkCopy(process.argv[1], [at('small'), at('large')])]
    console.log(JSON.stringify(checks))`
  const door = join(import.meta.dirname, 'index.ts')
  const args = ['-Urm', 'sh', '-ec', script, 'sh', dir, process.execPath, ask, door]
  const { stdout, stderr } = await run('unshare', args)
  expect(stderr.toString()).toBe('')
  expect(JSON.parse(stdout.toString())).toMatchObject([
    { name: 'disk', ok: true, fix: null },
    {
      name: 'disk',
      ok: false,
      detail: expect.stringMatching(/^7\d MB free where the folders are copied to, 8\d MB needed$/),
      fix: expect.stringContaining('ORANGERY_DATA_DIR'),
    },
  ])
})

test('an account that is not signed in fails with the hint of its card', async () => {
  const card = (auth: object) => agentCardSchema.parse({ id: 'a', name: 'A', auth })
  expect(await checkAuth(card({ check: ['true'] }))).toMatchObject([{ ok: true }])
  expect(await checkAuth(card({ check: ['false'], hint: 'Sign in.' }))).toMatchObject([
    { ok: false, fix: 'Sign in.' },
  ])
})

test.each([
  ['says no', ['false'], '`false` says no'],
  [
    'is not installed',
    ['no-such-program-here'],
    '`no-such-program-here` cannot be run (it is not installed)',
  ],
  ['is killed', ['sh', '-c', 'kill -9 $$'], '`sh -c kill -9 $$` was ended by SIGKILL'],
  ['does not answer', ['sleep', '60'], '`sleep 60` gave no answer within 0.3 s'],
])('a command that is to tell of an account and %s is named with that cause', async (_, check, detail) => {
  const card = agentCardSchema.parse({ id: 'a', name: 'A', auth: { check } })
  expect(await checkAuth(card, 300)).toMatchObject([{ ok: false, detail }])
})

test('a folder that holds our own config, by whichever link, mount or second name, is not written directly', async () => {
  const home = join(dir, 'ada')
  const config = join(home, '.config', 'orangery')
  const places = ['dot', 'middle', 'cards', 'twice', 'project'].map((name) => join(home, name))
  await Promise.all([...places, join(config, 'agents')].map((path) => mkdir(path, { recursive: true })))
  const [dot = '', middle = '', cards = '', twice = '', project = ''] = places
  await writeFile(join(dot, 'oc.json'), '{}')
  await writeFile(join(twice, 'trust'), '{}')
  await symlink(join(middle, 'link'), join(config, 'config.json'))
  await symlink('../dot/oc.json', join(middle, 'link'))
  await symlink(join(cards, 'mine.json'), join(config, 'agents', 'mine.json'))
  await link(join(twice, 'trust'), join(config, 'trust.json'))
  const isApart = async (root: string, from = config) => (await checkConfigApart(root, from)).ok
  for (const root of [home, config, join(config, 'agents'), dot, middle, cards, twice])
    expect(await isApart(root), root).toBe(false)
  expect(await isApart(project)).toBe(true)

  const elsewhere = join(dir, 'linked')
  await symlink(join(home, '.config'), elsewhere)
  expect(await isApart(config, join(elsewhere, 'orangery'))).toBe(false)
  expect(await isApart(project, join(elsewhere, 'orangery'))).toBe(true)
})

test.each([
  [{ platform: 'cloud' }, false],
  [{ platform: 'hybrid' }, false],
  [{ platform: 'mac' }, false],
  [{ software: 'macos' }, false],
  [{ platform: 'linux', software: 'linux' }, true],
  [{ platform: 'container', software: 'macos', level: 2 }, true],
  [{}, true],
] as const)('an agent runs where it was to run or not at all: %o', (more, ok) => {
  const checks = checkPlatform({ platform: null, software: null, level: 1, ...more }, 'linux')
  expect(checks.every((check) => check.ok)).toBe(ok)
})
