import { mkdtemp, readFile, realpath, rm, symlink } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { ownHomes, reachableHomes, realHomes } from './homes.ts'

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

test('root can look into the homes of all people, others into their own', async () => {
  const people = (await reachableHomes(0)).filter((home) => !ownHomes().includes(home))
  const users = (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => line.split(':'))
  const known = users.filter(([, , uid]) => Number(uid) >= 1000 && Number(uid) < 60_000)
  for (const home of people) expect(known.map((fields) => fields[5])).toContain(home)
  expect(people).not.toContain('/nonexistent')
  expect(await reachableHomes(1000)).toEqual(ownHomes())
})
