import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { type Ground, lookAtHost, makeGround, runIn } from '../fixture.ts'
import { withHidden } from './hide.ts'
import { placedIn, refuseHide } from './hidePatterns.ts'
import type { HostFacts } from '../host/host.ts'
import { planSandbox } from './plan.ts'

let host: HostFacts
beforeAll(() => lookAtHost((found) => (host = found)))

const files = [
  '.env',
  '.env.local',
  'a/.env',
  'a/b/.env',
  'a/b/key',
  'sec/t',
  'secrets/t',
  'x/secrets/t',
  '{b}',
]

async function withFiles(): Promise<Ground> {
  const ground = await makeGround()
  for (const path of files) {
    await mkdir(dirname(join(ground.root, path)), { recursive: true })
    await writeFile(join(ground.root, path), 'never to be read\n')
  }
  return ground
}

async function hiddenBy({ request, root }: Ground, ...hide: readonly string[]): Promise<readonly string[]> {
  const plan = await withHidden(planSandbox(request(['true'], { hide }), host))
  const targets = plan.view.flatMap((step) =>
    step.kind === 'hidden' && step.why === 'hidden by the spec' ? [relative(root, step.target)] : [],
  )
  return targets.toSorted()
}

test('patterns hide what they would name in .gitignore, also with slashes and dots to spare', async () => {
  await using ground = await withFiles()
  const envs = ['.env', 'a/.env', 'a/b/.env']
  const cases: readonly (readonly [string, readonly string[]])[] = [
    ['.env', envs],
    ['**/.env', envs],
    ['/**/.env', envs],
    ['**/**/.env', envs],
    ['**/.env*', ['.env', '.env.local', 'a/.env', 'a/b/.env']],
    ['/.env', ['.env']],
    ['./.env', ['.env']],
    ['a/.env', ['a/.env']],
    ['a//.env', ['a/.env']],
    ['a/./.env', ['a/.env']],
    ['a/**/.env', ['a/.env', 'a/b/.env']],
    ['**/a/**/key', ['a/b/key']],
    ['a/**', ['a/.env', 'a/b']],
    ['**/secrets', ['secrets', 'x/secrets']],
    ['**/secrets/**', ['secrets/t', 'x/secrets/t']],
    ['./sec', ['sec']],
    ['./sec/', ['sec']],
    ['sec/', ['sec']],
    ['{b}', ['{b}']],
  ]
  for (const [pattern, expected] of cases) {
    expect({ pattern, hidden: await hiddenBy(ground, pattern) }).toEqual({ pattern, hidden: expected })
  }
  const read = await runIn(ground, host, 'cat .env a/.env x/secrets/t 2>/dev/null; cat README.md', {
    hide: ['**/.env', '**/secrets/**'],
  })
  expect(read.stdout).toBe('original\n')
})

test('an absolute pattern holds in the root it leads into, by whatever name, and one of the home by ~', async () => {
  await using ground = await withFiles()
  const { root, folder } = ground
  await symlink(root, join(folder, 'alias'))
  for (const start of [
    root,
    join(folder, 'alias'),
    `/${root}/.`,
    join(folder, '*'),
    `${dirname(folder)}/**/project`,
  ]) {
    expect({ start, hidden: await hiddenBy(ground, `${start}/sec`) }).toEqual({ start, hidden: ['sec'] })
  }
  expect(await hiddenBy(ground, `${root}/**/.env`)).toEqual(['.env', 'a/.env', 'a/b/.env'])
  expect(await hiddenBy(ground, `${folder}/other/.env`, '~/other/.env')).toEqual([])
  const inHome = { path: join(homedir(), 'hd'), target: join(homedir(), 'hd') }
  expect(placedIn('~/hd/sec', inHome)).toEqual([{ kind: 'path', glob: 'sec' }])
  expect(placedIn('~/*/sec', inHome)).toEqual([{ kind: 'path', glob: 'sec' }])
})

test('a path that a spec names outside of the roots, or that is or holds a root, is bad input', async () => {
  await using ground = await withFiles()
  const { root, folder } = ground
  await mkdir(join(root, 'usr'))
  const refuse = (pattern: string, asked = [pattern]) => refuseHide([pattern], asked, [root])
  for (const outside of ['/etc/passwd', '~/.ssh', `${folder}/data/x`]) {
    await expect(refuse(outside)).rejects.toMatchObject({ code: 'spec.hide', kind: 'input' })
    // A config speaks of all projects.
    await refuse(outside, [])
  }
  for (const whole of [root, folder, `${root}/`, `${folder}/*`]) {
    await expect(refuse(whole, [])).rejects.toThrow('as a whole')
  }
  for (const inside of [`${root}/sec`, '/sec', '/not-there/x', '/usr/x', '/*/t', '/**/t', '.env']) {
    await refuse(inside)
  }
})
