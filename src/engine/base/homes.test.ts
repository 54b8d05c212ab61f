import { mkdtemp, realpath, rm, symlink } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { ownHomes, realHomes } from './homes.ts'

afterEach(() => vi.unstubAllEnvs())

test('a home is known by the system too, whatever the environment says', () => {
  vi.stubEnv('HOME', '/nonexistent')
  expect(ownHomes()).toEqual(['/nonexistent', userInfo().homedir])
})

test('a home that is a link is known by where it leads', async () => {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'orangery-homes-')))
  await using _ = { [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) }
  const link = join(folder, 'link')
  await symlink(folder, link)
  expect(await realHomes([link, '/nonexistent'])).toEqual([folder, '/nonexistent'])
})
