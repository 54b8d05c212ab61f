import { readFile, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { git } from '../base/git.ts'
import { identityConfig } from './agentIdentity.ts'
import { Ground, gitText } from './fixture.ts'
import { giveIdentity } from './index.ts'

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
