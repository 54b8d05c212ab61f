import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { obeyedBelow } from './obeyed.ts'

let home: string
beforeEach(async () => {
  home = await realpath(await mkdtemp(join(tmpdir(), 'orangery-obeyed-')))
})
afterEach(() => rm(home, { recursive: true }))

test('below a root lies what we obey there, and every link that leads to it', async () => {
  const config = join(home, '.config', 'orangery')
  const [dot, project] = [join(home, 'dot'), join(home, 'project')]
  await Promise.all([config, dot, project].map((path) => mkdir(path, { recursive: true })))
  await writeFile(join(dot, 'oc.json'), '{}')
  await symlink('second', join(dot, 'first'))
  await symlink('oc.json', join(dot, 'second'))
  await symlink(join(dot, 'first'), join(config, 'config.json'))
  expect([...(await obeyedBelow(dot, config))].sort()).toEqual(['first', 'oc.json', 'second'])
  expect(await obeyedBelow(home, config)).toEqual(
    expect.arrayContaining(['.config/orangery', 'dot/first', 'dot/second', 'dot/oc.json']),
  )
  expect(await obeyedBelow(config, config)).toEqual(['**'])
  expect(await obeyedBelow(project, config)).toEqual([])
})

test('where links lead in a circle, all that lies around them is protected', async () => {
  await symlink('b', join(home, 'a'))
  await symlink('a', join(home, 'b'))
  expect(await obeyedBelow(home, join(home, 'a'))).toEqual(['**'])
})
