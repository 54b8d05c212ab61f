import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { watchConfig } from './watch.ts'

let home: string
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'orangery-watch-'))
  await mkdir(join(home, 'project'))
  await mkdir(join(home, 'config'))
})
afterEach(() => rm(home, { recursive: true, force: true }))

test('a config that is put into a folder above a root, up to the top of its repository, is told', async () => {
  const root = join(home, 'project', 'sub', 'deep')
  await mkdir(join(home, 'project', '.git'))
  await mkdir(root, { recursive: true })
  let told = 0
  const watched = { userConfigDir: join(home, 'config'), roots: [root] }
  await using _watch = await watchConfig(watched, () => void (told += 1))
  for (const folder of ['project/sub', 'project']) {
    const before = told
    await writeFile(join(home, folder, '.orangery.json'), '{ "sandboxMaximumBoundary": "readonly" }')
    // Well before the look that would find it without a watcher.
    await expect.poll(() => told, { timeout: 3_000 }).toBe(before + 1)
  }
  // Nobody's project is above.
  await writeFile(join(home, '.orangery.json'), '{}')
  await sleep(400)
  expect(told).toBe(2)
})

test('a config of a project around a nested repository is told to whoever runs in there', async () => {
  const around = join(home, 'project')
  const root = join(around, 'nested')
  await mkdir(join(around, '.git'))
  await mkdir(join(root, '.git'), { recursive: true })
  let told = 0
  const watched = { userConfigDir: join(home, 'config'), roots: [root], around: [around] }
  await using _watch = await watchConfig(watched, () => void (told += 1))
  await writeFile(join(around, '.orangery.json'), '{ "sandboxMaximumBoundary": "readonly" }')
  await expect.poll(() => told, { timeout: 3_000 }).toBe(1)
})

test('a change of either file is told once, a touched neighbour or the same bytes are not', async () => {
  const project = join(home, 'project')
  const config = join(home, 'config', 'config.json')
  let told = 0
  let wake = () => {}
  const next = () => new Promise<void>((resolve) => (wake = resolve))
  await using _watch = await watchConfig({ userConfigDir: join(home, 'config'), roots: [project] }, () => {
    told += 1
    wake()
  })
  let change = next()
  // As editors do it: a new file beside, then renamed over.
  await writeFile(`${config}.new`, '{}')
  await rename(`${config}.new`, config)
  await change
  change = next()
  await writeFile(join(project, '.orangery.json'), '{ "sandboxEnabled": true }')
  await change
  await writeFile(config, '{}')
  await writeFile(join(project, 'main.c'), 'int main;')
  await sleep(400)
  expect(told).toBe(2)
})
