import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { layout } from '../../src/engine/base/paths.ts'
import { createChangesets } from '../../src/engine/changeset/changesets.ts'
import { watchedDisk } from '../../src/engine/changeset/disk.ts'
import { createEngine } from '../../src/engine/index.ts'
import { openStore } from '../../src/engine/store/index.ts'
import { claimLanding } from '../../src/engine/workspace/index.ts'
import type { DispatchId } from '../../src/shared/ids.ts'
import { Bench, waitUntil } from '../dispatch/harness.ts'

let bench: Bench
beforeEach(async () => {
  bench = await Bench.create({ 'one.txt': 'old', 'two.txt': 'old' })
})
afterEach(() => bench[Symbol.asyncDispose]())

async function writeBoth(): Promise<DispatchId> {
  const id = await bench.spawn('echo -n new > one.txt; echo -n new > two.txt')
  await bench.ended(id)
  return id as DispatchId
}

/** Lands one of the two files, and ends there as a `kill -9` ends it. */
async function landHalf(id: DispatchId): Promise<void> {
  await using store = await openStore(bench.dataDir)
  let links = 0
  const disk = watchedDisk((operation) => {
    if (operation === 'link') links += 1
    if (links > 1) throw Object.assign(new Error('EIO: injected'), { code: 'EIO' })
  })
  const dying = createChangesets({ layout: layout(bench.dataDir), records: store.changesets, disk })
  const landing = dying.apply(id, { all: true, include_ignored: false }, 'test')
  await expect(landing).rejects.toMatchObject({ code: 'changeset.apply_cut_off' })
  expect(await contents()).toEqual(['new', 'old'])
}
const contents = () =>
  Promise.all(['one.txt', 'two.txt'].map((name) => readFile(join(bench.project, name), 'utf8')))
const stateOf = async (id: string) => (await bench.client.call('changeset.get', { id })).state
const look = 'echo "SAW $(cat one.txt) $(cat two.txt)"'

test.each(['overlay', 'clone'])(
  'an agent (%s) that waited for a landing whose process is killed half-way sees all of it, and none of it come',
  async (strategy) => {
    const writer = await writeBoth()
    const landing = await claimLanding(layout(bench.dataDir), { id: writer, paths: [bench.project] })
    await landHalf(writer)
    const looking = await bench.spawn(`${look}; sleep 0.5; ${look}`, {
      sandbox_spec: JSON.stringify({ changeset: strategy }),
    })
    await sleep(1_500)
    expect((await bench.client.call('dispatch.get', { id: looking })).status).toBe('starting')
    await landing[Symbol.asyncDispose]()
    await bench.ended(looking)
    expect((await bench.output(looking)).match(/SAW .*\b/g)).toEqual(['SAW new new', 'SAW new new'])
    expect(await stateOf(writer)).toBe('applied')
  },
)

test('no agent starts where a landing stands still half-way until a person has settled it, and is told so', async () => {
  const writer = await writeBoth()
  await landHalf(writer)
  await writeFile(join(bench.project, 'two.txt'), 'mine')
  const rows = async () => (await bench.client.call('dispatch.list', {})).length
  const before = await rows()
  const refused = {
    code: 'workspace.landing_cut_off',
    exitCode: 75,
    message: expect.stringContaining(`${bench.project}: a landing of ${writer} was cut off there at two.txt`),
    hint: expect.stringContaining(`orangery changeset settle ${writer} mine|theirs --path two.txt`),
  }
  await expect(bench.spawn(look)).rejects.toMatchObject(refused)
  const asked = { agent: 'shell', prompt: look, roots: [bench.project] }
  await expect(bench.client.call('dispatch.preflight', asked)).rejects.toMatchObject(refused)
  expect(await rows()).toBe(before)
  expect(await contents()).toEqual(['new', 'mine'])
  await bench.client.call('changeset.settle', { id: writer, path: 'two.txt', choice: 'theirs' })
  const looking = await bench.spawn(look)
  await bench.ended(looking)
  expect(await bench.output(looking)).toContain('SAW new new')
})

test('nor where it came to stand still while the agent waited: it ends with the same word and has run nothing', async () => {
  const writer = await writeBoth()
  const landing = await claimLanding(layout(bench.dataDir), { id: writer, paths: [bench.project] })
  await landHalf(writer)
  const looking = await bench.spawn(look)
  await writeFile(join(bench.project, 'two.txt'), 'mine')
  await landing[Symbol.asyncDispose]()
  const { status, error } = await bench.ended(looking)
  expect({ status, error }).toMatchObject({
    status: 'failed',
    error: expect.stringContaining(`a landing of ${writer} was cut off there at two.txt`),
  })
  expect(await bench.output(looking)).not.toContain('SAW')
})

test('what a crash cut off is not brought to its end under an agent that runs there, but when it has ended', async () => {
  const writer = await writeBoth()
  const running = await bench.spawn('sleep 300')
  await bench.running(running)
  await landHalf(writer)
  await bench.engine.close()
  bench.engine = await createEngine({ dataDir: bench.dataDir, host: 'command-line' })
  expect(await contents()).toEqual(['new', 'old'])
  await bench.client.call('dispatch.kill', { id: running })
  await waitUntil('it has landed', async () => (await stateOf(writer)) === 'applied', 30_000)
  expect(await contents()).toEqual(['new', 'new'])
})

test('the control: an agent on another folder starts beside a landing that stands still', async () => {
  const writer = await writeBoth()
  await landHalf(writer)
  await writeFile(join(bench.project, 'two.txt'), 'mine')
  const folder = join(bench.base, 'elsewhere')
  await mkdir(folder)
  const elsewhere = await bench.spawn('echo fine', { roots: [folder] })
  expect((await bench.ended(elsewhere)).status).toBe('completed')
  expect(await bench.output(elsewhere)).toContain('fine')
})
