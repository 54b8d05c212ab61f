import { chmod, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { agentCardSchema } from '../../../shared/card.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import type { Contract } from '../../base/contract.ts'
import { layout as layoutOf } from '../../base/paths.ts'
import { listLeftovers } from '../../sandbox/index.ts'
import { prepareHome, takeHome } from './home.ts'

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

test('what we gave the agent in its home counts as left only once it was changed', async () => {
  const given = { '.gitconfig': '[user]\n\tname = "Ann"\n' }
  await writeFile(join(home, '.gitconfig'), given['.gitconfig'])
  const paths = async () => (await listLeftovers(home, [], given)).map(({ path }) => path)
  expect(await paths()).toEqual(['~/.npm'])
  await writeFile(join(home, '.gitconfig'), given['.gitconfig'].replace('Ann', 'Bob'))
  expect(await paths()).toEqual(['~/.gitconfig', '~/.npm'])
})

test('what is left in a home is listed where its agent closed it, too', async () => {
  await chmod(join(home, '.npm'), 0)
  await chmod(home, 0)
  const [left, ...more] = await listLeftovers(home, ['unshare', '-Ur', '--', 'find'])
  expect(more).toEqual([])
  expect(left?.path).toBe('~/.npm')
  expect(left?.bytes).toBeGreaterThan(8000)
})

test('a kept home has one run at a time, and a later turn goes on in the home that the earlier one had', async () => {
  const layout = layoutOf(join(folder, 'data'))
  const card = agentCardSchema.parse({ id: 'kept', name: 'Kept', sandboxRequirements: { home: 'keep' } })
  const take = (name: string, continues: DispatchId | null = null, level: 0 | 1 = 1) => {
    const contract = { level } as Contract
    return takeHome({ layout }, { card, contract, continues }, { dir: join(folder, name) })
  }
  const earlier = '20261118000000-abcd' as DispatchId
  const [kept, own] = [join(layout.homes, 'kept'), join(folder, 'second', 'home')]
  {
    await using first = await take('first')
    expect(first).toMatchObject({ path: kept, note: null })
    await using second = await take('second')
    expect(second.path).toBe(own)
    expect(second.note).toMatch(/^another run of kept has its kept home/)
    // There the home is the user's own, which is nobody's to hold.
    await using direct = await take('third', null, 0)
    expect(direct).toMatchObject({ path: kept, note: null })
  }
  await using turn = await take('second', earlier)
  expect(turn.path).toBe(own)
  expect(turn.note).toMatch(/^an earlier turn had a home of its own/)
  await using next = await take('fourth', earlier)
  expect(next).toMatchObject({ path: kept, note: null })
})
