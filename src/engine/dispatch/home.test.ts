import { chmod, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { listLeftovers } from '../sandbox/index.ts'
import { prepareHome } from './workspaceFor.ts'

let folder: string
let home: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'orangery-home-'))
  home = join(folder, 'homes', 'kept')
  await prepareHome(home)
  await mkdir(join(home, '.npm'))
  await writeFile(join(home, '.npm', 'cached'), 'x'.repeat(10_000))
})
afterEach(async () => {
  await prepareHome(home)
  await chmod(join(home, '.npm'), 0o700)
  await rm(folder, { recursive: true })
})

const modeOf = async (path: string) => (await stat(path)).mode & 0o777

test.each([0o000, 0o400, 0o500, 0o300])(
  'a kept home that an agent closed is open to the next one: %o',
  async (mode) => {
    await chmod(home, mode)
    await prepareHome(home)
    expect(await modeOf(home)).toBe(0o700)
    expect(await modeOf(join(home, '.npm'))).toBe(0o755)
  },
)

test('what is left in a home is listed where its agent closed it, too', async () => {
  await chmod(join(home, '.npm'), 0)
  await chmod(home, 0)
  const [left, ...more] = await listLeftovers(home, ['unshare', '-Ur', '--', 'find'])
  expect(more).toEqual([])
  expect(left?.path).toBe('~/.npm')
  expect(left?.bytes).toBeGreaterThan(8000)
})
