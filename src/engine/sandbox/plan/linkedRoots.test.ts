import { mkdir, rename, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { lookAtHost, makeGround, startOn } from '../fixture.ts'
import type { HostFacts } from '../host/host.ts'
import { checkLinkedRoots } from './linkedRoots.ts'

let host: HostFacts
beforeAll(() => lookAtHost((found) => (host = found)))

test('a root named through a link in what the sandbox shows fails preflight with its real path, and elsewhere it starts', async () => {
  await using ground = await makeGround()
  const shown = join(ground.folder, 'shown')
  const path = join(shown, 'releases/42')
  await mkdir(join(shown, 'releases'), { recursive: true })
  await rename(ground.root, path)
  await symlink('releases/42', join(shown, 'current'))
  await symlink('shown', join(ground.folder, 'link'))
  const request = (target: string, grants: readonly string[]) => {
    const { workspace } = ground.request(['true'])
    const roots = workspace.roots.map((root) => ({
      ...root,
      path,
      target,
      mount: { ...root.mount, lower: path },
    }))
    return ground.request(['true'], { workspace: { ...workspace, roots }, cwd: target, grants })
  }
  const cases = [
    { target: join(shown, 'current'), grants: [shown], isRefused: true },
    { target: join(shown, 'current'), grants: [], isRefused: false },
    { target: path, grants: [shown], isRefused: false },
    { target: join(ground.folder, 'link/current'), grants: [join(ground.folder, 'link')], isRefused: true },
  ]
  for (const { target, grants, isRefused } of cases) {
    const checks = await checkLinkedRoots(request(target, grants), host)
    const fixes = checks.map(({ ok, fix }) => ({ ok, fix }))
    expect({ target, grants, fixes }).toEqual({
      target,
      grants,
      fixes: isRefused ? [{ ok: false, fix: expect.stringContaining(path) }] : [],
    })
    const start = async () => {
      const { sandbox, finish } = await startOn(ground, request(target, grants), host)
      sandbox.release()
      return (await finish()).exitCode
    }
    if (isRefused) await expect(start()).rejects.toThrow()
    else expect(await start()).toBe(0)
  }
  const system = [{ kind: 'folder', path: shown } as const]
  expect(await checkLinkedRoots(request(join(shown, 'current'), []), { system })).toHaveLength(1)
})
