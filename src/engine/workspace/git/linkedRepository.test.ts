import { mkdir, readdir, readFile, rename, rm, symlink, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { git, tryGit } from '../../base/git.ts'
import { assertOwnGit } from '../../base/ownGit.ts'
import { gitText, Ground } from '../fixture.ts'
import { createWorktree, identifyProject, lendObjects } from '../index.ts'

let ground: Ground
let [mine, hostile, secret, fault] = ['', '', '', '']
beforeEach(async () => {
  ground = await Ground.make()
  mine = join(await ground.repo('private'), '.git')
  await git(['-C', join(mine, '..'), 'commit', '-q', '--allow-empty', '-m', 'Private'])
  hostile = join(await ground.repo('hostile'), '.git')
  secret = await gitText(join(mine, '..'), 'rev-parse', 'HEAD')
  fault = ''
})
afterEach(() => ground[Symbol.asyncDispose]())

const borrow = () => writeFile(join(hostile, 'objects/info/alternates'), `${join(mine, 'objects')}\n`)
const put = async (path: string) => {
  await rm(join(hostile, path), { recursive: true, force: true })
  await symlink(join(mine, path), join(hostile, path))
}
const refusal = { code: 'workspace.linked_repository' }
const lend = async () =>
  lendObjects(ground.layout, await identifyProject([ground.path('hostile')]), (text) => (fault += text))
const create = (repo = ground.path('hostile')) => createWorktree({ layout: ground.layout, repo, name: 'w' })

describe('a checkout that has links to another repository of the user in its own', () => {
  test('is lent nothing that a branch of the other one stands for', async () => {
    await borrow()
    const [open] = await lend()
    await symlink(join(mine, 'refs/heads/main'), join(hostile, 'refs/heads/stolen'))
    // That git does follow it, and would have copied what it leads to.
    expect(await gitText(join(hostile, '..'), 'rev-parse', 'stolen')).toBe(secret)
    expect(await lend()).toEqual([])
    expect(fault).toContain('refs/heads/stolen: this part of the repository is a link')
    const copy = join(open!.source, '..')
    expect((await tryGit(['cat-file', '-e', secret], { gitDir: copy })).code).not.toBe(0)
  })

  test('is lent nothing that the index of the other one names', async () => {
    await borrow()
    await put('index')
    expect(await lend()).toEqual([])
    expect(fault).toContain('index: this part of the repository is a link')
  })

  test('gets no worktree of what its objects and branches lead to', async () => {
    await put('objects')
    await put('refs/heads/main')
    await expect(create()).rejects.toMatchObject(refusal)
  })

  test('is refused whichever part of it is the link', async () => {
    await expect(assertOwnGit(hostile)).resolves.toBeUndefined()
    const own = ['HEAD', 'packed-refs', 'refs', 'index', 'objects', 'objects/pack', 'objects/info', 'logs']
    const others = ['config', 'worktrees/x/HEAD', 'modules/sm/refs', 'objects/pack/pack-1.pack', 'objects/00']
    for (const path of [...own, ...others]) {
      const place = join(hostile, path)
      await mkdir(join(place, '..'), { recursive: true })
      await rename(place, `${hostile}.aside`).catch(() => {})
      await symlink(join(mine, path), place)
      await expect(assertOwnGit(hostile), path).rejects.toMatchObject(refusal)
      await unlink(place)
      await rename(`${hostile}.aside`, place).catch(() => {})
    }
    await expect(assertOwnGit(hostile)).resolves.toBeUndefined()
  })

  test('works where HEAD is a link to its branch, as git once made it, and hooks lie elsewhere', async () => {
    await unlink(join(hostile, 'HEAD'))
    await symlink('refs/heads/main', join(hostile, 'HEAD'))
    await rm(join(hostile, 'hooks'), { recursive: true, force: true })
    await symlink('/usr/share', join(hostile, 'hooks'))
    await expect(create()).resolves.toMatchObject({ name: 'w' })
  })
})

test('lines that hide the markers are not written through a link, and those that are behind one count', async () => {
  const other = ground.path('config.json')
  const folder = join(hostile, 'info')
  const refusesWithout = async (lines: string) => {
    await writeFile(other, lines)
    await expect(create()).rejects.toMatchObject({ code: 'workspace.linked_exclude', exitCode: 77 })
    expect(await readFile(other, 'utf8')).toBe(lines)
    expect(await readdir(ground.base)).not.toContain('exclude')
  }
  await rm(folder, { recursive: true, force: true })
  await symlink(ground.base, folder)
  await refusesWithout('{}\n')
  await rm(folder)
  await mkdir(folder)
  await symlink(other, join(folder, 'exclude'))
  await refusesWithout('{}\n')
  await writeFile(other, '/.agency/INTEGRATION_MARKER\n/.agency/SANDBOX_MARKER\n')
  await expect(create()).resolves.toMatchObject({ name: 'w' })
})

test('a checkout that only names a repository of the user gets no worktree of it', async () => {
  const folder = await ground.folder('claims')
  const dotGit = join(folder, '.git')
  const claims = {
    file: () => writeFile(dotGit, `gitdir: ${mine}\n`),
    link: () => symlink(mine, dotGit),
    commondir: async () => {
      await git(['init', '-q', folder])
      await writeFile(join(dotGit, 'commondir'), `${mine}\n`)
    },
  }
  for (const claim of Object.values(claims)) {
    await claim()
    await expect(create(folder)).rejects.toMatchObject({ code: 'workspace.foreign_repository' })
    await rm(dotGit, { recursive: true })
  }
  await expect(create(ground.path('private'))).resolves.toMatchObject({ name: 'w' })
})
