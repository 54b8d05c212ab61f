import { link, mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeGround } from '../fixture.ts'
import { checkUnseen } from './unseen.ts'

test('a file with a secret is refused wherever the agent would see it, by whatever name, and nowhere else', async () => {
  await using ground = await makeGround()
  const { folder, root } = ground
  const at = (name: string) => join(folder, name)
  for (const name of ['apart', 'system', 'system/closed', 'granted']) await mkdir(at(name))
  const written = ['project/token', 'apart/token', 'system/token', 'system/closed/token', 'granted/token']
  for (const name of [...written, 'apart/twice']) await writeFile(at(name), 's3cret\n')
  await symlink(join(root, 'token'), at('apart/linked'))
  await link(at('apart/twice'), at('apart/again'))
  const host = {
    system: [{ kind: 'folder' as const, path: at('system') }],
    secretPaths: [{ kind: 'folder' as const, path: at('system/closed') }],
  }
  const faults = async (name: string, level: 0 | 1 | 2 = 1) => {
    const request = ground.request(['true'], { grants: [at('granted')], level })
    return (await checkUnseen(request, host, [at(name)])).map(({ ok, detail }) => (ok ? '' : detail))
  }
  expect(await faults('apart/token')).toEqual([])
  expect(await faults('apart/missing')).toEqual([])
  expect(await faults('project/token')).toEqual([expect.stringContaining(`the workspace ${root}`)])
  expect(await faults('apart/linked')).toEqual([expect.stringContaining(`the workspace ${root}`)])
  expect(await faults('apart/twice')).toEqual([expect.stringContaining('second name')])
  expect(await faults('granted/token')).toEqual([expect.stringContaining('which its card may read')])
  expect(await faults('system/token')).toEqual([expect.stringContaining('which every sandbox shows')])
  expect(await faults('system/closed/token')).toEqual([])
  // A container has a system of its own.
  expect(await faults('system/token', 2)).toEqual([])
  expect(await faults('project/token', 2)).toHaveLength(1)
})
