import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeGround, startOn } from '../fixture.ts'
import { detectHost } from '../host/host.ts'

test('fuse-overlayfs carries the workspace where the kernel cannot, live boundary included', async ({
  skip,
}) => {
  await using ground = await makeGround("odd, 'name': here")
  const host = await detectHost(ground.dataDir)
  skip(host.uid !== 0 || host.tools['fuse-overlayfs'] === null, 'no fuse-overlayfs for this user')
  const request = ground.request([
    'sh',
    '-c',
    'cat README.md; echo changed >README.md; touch ~/ready; while [ ! -e ~/go ]; do sleep 0.01; done; touch late || echo refused',
  ])
  const workspace = { ...request.workspace, driver: 'fuse-overlayfs' as const }
  const { sandbox, finish } = await startOn(ground, { ...request, workspace }, host)
  await using _ = sandbox
  sandbox.release()
  await ground.waitForHome('ready')
  await sandbox.setFiles('ro')
  await ground.writeHome('go')
  expect((await finish()).stdout).toBe('original\nrefused\n')
  expect(await readFile(join(ground.root, 'README.md'), 'utf8')).toBe('original\n')
  expect(await readFile(join(ground.upper, 'README.md'), 'utf8')).toBe('changed\n')
})
