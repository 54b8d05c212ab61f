import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeGround } from '../fixture.ts'
import { checkGrants } from './grants.ts'

test('a grant that is not there, shows our folders or the whole home, or covers the sandbox fails preflight', async () => {
  await using ground = await makeGround()
  const home = join(ground.folder, 'home')
  const tools = join(home, 'tools')
  const link = join(ground.folder, 'link')
  await mkdir(tools, { recursive: true })
  await writeFile(join(home, 'token'), '')
  await symlink(ground.dataDir, link)
  const faultOf = async (grant: string, level: 0 | 1 = 1) => {
    const found = await checkGrants(ground.request(['true'], { grants: [tools, grant], level }), [home])
    expect(found.every(({ ok, fix }) => !ok && fix !== null)).toBe(true)
    return found.map(({ detail }) => detail.slice(grant.length + 1)).join()
  }
  const ours = `would show ${ground.dataDir}, which is Orangery's own`
  expect(await faultOf(join(home, 'token'))).toBe('')
  expect(await faultOf(join(home, 'missing'))).toBe('is not there')
  expect(await faultOf('tools')).toBe('is no absolute path')
  expect(await faultOf(ground.folder)).toBe(ours)
  expect(await faultOf(join(ground.dataDir, 'repos'))).toBe(ours)
  expect(await faultOf(link)).toBe(ours)
  expect(await faultOf(home)).toBe('holds your whole home, secrets and all')
  for (const own of ['/proc', '/dev', '/dev/shm', '/var', '/var/tmp'])
    expect(await faultOf(own)).toBe(`would cover ${own} of the sandbox`)
  expect(await faultOf('/')).toMatch(/^would show/)
  for (const [path, kernel] of [
    ['/proc/1', '/proc'],
    ['/proc/self/environ', '/proc'],
    ['/sys', '/sys'],
    ['/sys/kernel', '/sys'],
    ['/dev/null', '/dev'],
  ] as const)
    expect(await faultOf(path)).toBe(`lies in ${kernel}, which is the host's kernel, devices and processes`)
  expect(await faultOf('/etc')).toMatch(/^is shown already, but for what other users may not read/)
  expect(await faultOf('/etc/passwd')).toBe('')
  expect(await faultOf(join(home, 'missing'), 0)).toBe('')
})

test('a grant of a folder above keys and tokens fails preflight, unless they are granted by name', async () => {
  await using ground = await makeGround()
  const home = join(ground.folder, 'home')
  const at = (path: string) => join(home, path)
  for (const path of ['.config/gh', '.config/tool', '.local/share/tool', 'dots/ssh'])
    await mkdir(at(path), { recursive: true })
  await symlink('dots/ssh', at('.ssh'))
  await symlink('.config', at('settings'))
  const faultsOf = async (...paths: readonly string[]) => {
    const found = await checkGrants(ground.request(['true'], { grants: paths.map(at) }), [home])
    return found.map(({ detail }) => detail)
  }
  const why = (path: string, keys: string) =>
    `${at(path)} contains ${at(keys)}, where keys and tokens are kept, and nobody named that`
  expect(await faultsOf('.config')).toEqual([why('.config', '.config/gh')])
  expect(await faultsOf('settings')).toEqual([why('settings', '.config/gh')])
  expect(await faultsOf('dots')).toEqual([why('dots', '.ssh')])
  expect(await faultsOf('.config/gh', '.config/tool', '.local', '.ssh')).toEqual([])
  expect(await faultsOf('.config', '.config/gh')).toEqual([])
  await mkdir(at('.cargo/bin'), { recursive: true })
  await writeFile(at('.cargo/credentials.toml'), 'token')
  expect(await faultsOf('.cargo')).toEqual([why('.cargo', '.cargo/credentials.toml')])
  expect(await faultsOf('.cargo/bin', '.cargo/credentials.toml')).toEqual([])
})

test('a grant that leads to keys and tokens by another name fails preflight', async () => {
  await using ground = await makeGround()
  const home = join(ground.folder, 'home')
  const alias = join(ground.folder, 'alias')
  const at = (path: string) => join(home, path)
  for (const path of ['.ssh/deep', '.config/gh', 'dots/kube']) await mkdir(at(path), { recursive: true })
  await symlink('.ssh', at('link'))
  await symlink('.ssh/deep', at('deep'))
  await symlink('.config', at('settings'))
  await symlink('dots/kube', at('.kube'))
  await symlink(home, alias)
  const faultsOf = async (...paths: readonly string[]) =>
    (await checkGrants(ground.request(['true'], { grants: paths }), [alias])).map(({ detail }) => detail)
  const why = (path: string, keys: string) =>
    `${path} leads to ${at(keys)}, where keys and tokens are kept, by another name`
  expect(await faultsOf(at('link'), at('deep'), at('settings/gh'))).toEqual([
    why(at('link'), '.ssh'),
    why(at('deep'), '.ssh'),
    why(at('settings/gh'), '.config/gh'),
  ])
  await writeFile(at('.netrc'), 'password')
  await symlink('.netrc', at('login'))
  expect(await faultsOf(at('login'))).toEqual([why(at('login'), '.netrc')])
  expect(await faultsOf(at('.netrc'))).toEqual([])
  expect(await faultsOf(at('.ssh'), `${alias}/.ssh/deep`, at('dots/kube'), at('.kube'))).toEqual([])
})
