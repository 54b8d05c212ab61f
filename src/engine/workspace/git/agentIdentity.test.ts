import { readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { git } from '../../base/git.ts'
import { identityConfig } from './agentIdentity.ts'
import { Ground, gitText } from '../fixture.ts'
import { giveIdentity, readUserIdentity } from '../index.ts'

test('an agent gets the name and address of its user, whatever is in them, and nothing else', async () => {
  await using ground = await Ground.make()
  const repo = await ground.repo('repo')
  const home = await ground.folder('home')
  const name = 'Ann "\\x" #;\n[core] O\'Neil'
  await git(['-C', repo, 'config', 'user.name', name])
  await git(['-C', repo, 'config', 'user.email', 'ann@example.com'])
  await git(['-C', repo, 'config', 'user.signingKey', 'secret'])
  await giveIdentity(home, repo)
  const file = join(home, '.gitconfig')
  expect(await gitText(repo, 'config', '--file', file, 'user.name')).toBe(name)
  expect(await gitText(repo, 'config', '--file', file, '--list', '--name-only')).toBe('user.name\nuser.email')
  expect(identityConfig({})).toBe('')

  await git(['-C', repo, 'config', 'user.name', 'Later'])
  await giveIdentity(home, repo)
  expect(await gitText(repo, 'config', '--file', file, 'user.name')).toBe(name)
  // An agent whose home is kept may leave a link.
  const kept = await ground.folder('kept')
  await symlink(join(repo, 'a.txt'), join(kept, '.gitconfig'))
  await giveIdentity(kept, repo)
  expect(await readFile(join(repo, 'a.txt'), 'utf8')).toBe('one\n')
})

test('an agent gets the name that its user has in the environment, ahead of what is configured, where both are there', async () => {
  await using ground = await Ground.make()
  const repo = await ground.repo('repo')
  await git(['-C', repo, 'config', 'user.name', 'Configured'])
  await git(['-C', repo, 'config', 'user.email', 'c@x'])
  let round = 0
  const given = async () => {
    const home = await ground.folder(`home${round++}`)
    await giveIdentity(home, repo, {
      user: { settings: {}, files: new Map() },
      commonDir: join(repo, '.git'),
    })
    return gitText(repo, 'config', '--file', join(home, '.gitconfig'), '--get-regexp', 'user')
  }
  try {
    for (const name of ['AUTHOR_NAME', 'AUTHOR_EMAIL', 'COMMITTER_NAME', 'COMMITTER_EMAIL'])
      vi.stubEnv(`GIT_${name}`, undefined)
    vi.stubEnv('GIT_AUTHOR_NAME', 'Ann')
    expect(await given()).toBe('user.name Configured\nuser.email c@x')
    vi.stubEnv('GIT_COMMITTER_NAME', 'Bob')
    vi.stubEnv('GIT_COMMITTER_EMAIL', 'bob@x')
    expect(await given()).toBe('user.name Bob\nuser.email bob@x')
    vi.stubEnv('GIT_AUTHOR_EMAIL', 'ann@x')
    expect(await given()).toBe('user.name Ann\nuser.email ann@x')
  } finally {
    vi.unstubAllEnvs()
  }
})

test('a name that was read before is given only while git would still say the same in that repository', async () => {
  await using ground = await Ground.make()
  const repo = await ground.repo('repo')
  const own = await ground.repo('own')
  // What the fixture says of itself in there is not in the way here.
  for (const each of ['user.name', 'user.email'])
    await git(['-C', repo, 'config', '--unset-all', each]).catch(() => null)
  await git(['-C', own, 'config', 'user.name', 'Own'])
  const folder = await ground.folder('user')
  const config = join(folder, '.gitconfig')
  await writeFile(config, '[user]\n\tname = Ann\n[include]\n\tpath = more\n')
  vi.stubEnv('HOME', folder)
  vi.stubEnv('XDG_CONFIG_HOME', folder)
  vi.stubEnv('GIT_CONFIG_GLOBAL', undefined)
  try {
    const user = await readUserIdentity()
    if (user === null) throw new Error('the name was not read')
    let round = 0
    const given = async (root: string, commonDir: string | null = join(root, '.git')) => {
      const home = await ground.folder(`home${round++}`)
      await giveIdentity(home, root, { user, commonDir })
      return (await gitText(repo, 'config', '--file', join(home, '.gitconfig'), 'user.name')).trim()
    }
    expect(await given(repo)).toBe('Ann')
    expect(await given(await ground.folder('plain'), null)).toBe('Ann')
    expect(await given(own)).toBe('Own')
    await writeFile(join(folder, 'more'), '[user]\n\tname = Included\n')
    expect(await given(repo)).toBe('Included')
    await writeFile(config, '[user]\n\tname = Later\n')
    expect(await given(repo)).toBe('Later')
    await writeFile(config, `[includeIf "gitdir:${repo}/"]\n\tpath = more\n`)
    expect(await readUserIdentity()).toBeNull()
  } finally {
    vi.unstubAllEnvs()
  }
})
