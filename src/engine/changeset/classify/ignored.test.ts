import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { git } from '../../base/git.ts'
import { run } from '../../base/process.ts'
import { fromText } from '../bytePath.ts'
import { ignoredPaths } from './ignored.ts'

const paths = [
  ':(glob)x',
  ':/',
  'alink/k',
  'alink/node_modules/m',
  'alink/keep.log',
  'node_modules/m',
  'z',
  'a.log',
].map(fromText)
const ignored = ['alink/node_modules/m', 'node_modules/m', 'a.log'].map(fromText)

test.each(['with git', 'without git', 'with a broken .git'])(
  'no name of an agent switches off what the base ignores, %s',
  async (how) => {
    const folder = await mkdtemp(join(tmpdir(), 'orangery-ignored-test-'))
    try {
      const base = join(folder, 'base')
      await git(['init', '-q', '--bare', join(folder, 'own')])
      await mkdir(base)
      await writeFile(join(base, '.gitignore'), 'node_modules/\n*.log\n!keep.log\n')
      await symlink('z', join(base, 'alink'))
      if (how === 'with git') await git(['init', '-q', base])
      if (how === 'with a broken .git') await writeFile(join(base, '.git'), 'gitdir: nowhere\n')
      expect(await ignoredPaths(base, join(folder, 'own'), paths)).toEqual(new Set(ignored))
    } finally {
      await rm(folder, { recursive: true })
    }
  },
)

afterEach(() => vi.unstubAllEnvs())

test.each([
  ['where git looks for them', 'home', 'home/.config/git/ignore', null],
  ['in the folder of settings', 'home', 'settings/git/ignore', null],
  ['in a file that his settings name', 'home', 'home/mine', '[core]\n\texcludesFile = ~/mine\n'],
  [
    'in a file that is named from the project',
    'home',
    'base/sub/rules',
    '[core]\n\texcludesFile = sub/rules\n',
  ],
])(
  'what the user ignores everywhere, %s, is ignored as git itself says',
  async (_, home, rules, settings) => {
    const folder = await mkdtemp(join(tmpdir(), 'orangery-ignored-test-'))
    try {
      const base = join(folder, 'base')
      const write = async (name: string, text: string) => {
        await mkdir(dirname(join(folder, name)), { recursive: true })
        await writeFile(join(folder, name), text)
      }
      await mkdir(join(folder, home))
      vi.stubEnv('HOME', join(folder, home))
      vi.stubEnv('XDG_CONFIG_HOME', rules.startsWith('settings') ? join(folder, 'settings') : undefined)
      if (settings !== null) await write(`${home}/.gitconfig`, settings)
      await write(rules, 'node_modules/\n*.log\n*.tmp\n')
      await git(['init', '-q', '--bare', join(folder, 'own')])
      await git(['init', '-q', base])
      await write('base/.git/info/exclude', '*.own\n!b.tmp\n')
      await symlink('z', join(base, 'alink'))
      await write('base/.gitignore', '!keep.log\n')
      const names = ['a.log', 'keep.log', 'a.tmp', 'b.tmp', 'c.own', 'plain', 'node_modules/m']
      const said = await run('git', ['check-ignore', ...names], {
        cwd: base,
        env: { ...process.env, LANG: 'C' } as Record<string, string>,
      })
      const expected = said.stdout.toString().trim().split('\n')
      expect(expected).toEqual(['a.log', 'a.tmp', 'c.own', 'node_modules/m'])
      const beyond = [...names, ...names.map((name) => `alink/${name}`)].map(fromText)
      expect(await ignoredPaths(base, join(folder, 'own'), beyond)).toEqual(
        new Set([...expected, ...expected.map((name) => `alink/${name}`)].map(fromText)),
      )
    } finally {
      await rm(folder, { recursive: true })
    }
  },
)

test('where git cannot be asked everything counts as ignored', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'orangery-ignored-test-'))
  try {
    const found = await ignoredPaths(folder, join(folder, 'none'), paths)
    expect(found).toEqual(new Set(paths))
  } finally {
    await rm(folder, { recursive: true })
  }
})
