import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createChangesets } from '../../src/engine/changeset/changesets.ts'
import { watchedDisk } from '../../src/engine/changeset/disk.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'

const all = { all: true, include_ignored: false }
const names = Array.from({ length: 8 }, (_, at) => `f${at}`)

function failure(code: string): Error {
  return Object.assign(new Error(`${code}: injected`), { code })
}

/** Another process on the same data, to whose disk operations something happens. */
function beside(bench: Bench, before: (operation: string, args: readonly unknown[]) => void) {
  const disk = watchedDisk((operation, _, args) => before(operation, args))
  return createChangesets({ layout: bench.layout, records: bench.store.changesets, disk })
}
const read = (bench: Bench, name: string) => readFileSync(join(bench.root, name), 'utf8')
const staging = (bench: Bench) => readdirSync(bench.root).filter((name) => name.startsWith('.orangery-apply'))

/** An apply that ends, as by a kill, when half of the files are new; the way back is cut off too. */
async function cutOff(bench: Bench) {
  await bench.user(names.map((name) => `echo old-${name} > ${name}`).join('\n'))
  const { id } = await bench.dispatch(names.map((name) => `echo new-${name} > ${name}`).join('\n'))
  let links = 0
  const dying = beside(bench, (operation) => {
    if (operation === 'link') links += 1
    if (links > 4) throw failure('EIO')
  })
  await expect(dying.apply(id, all, 'test')).rejects.toMatchObject({ code: 'changeset.apply_cut_off' })
  expect(names.map((name) => read(bench, name).slice(0, 3)).filter((word) => word === 'new')).toHaveLength(4)
  return id
}

test('a way back never replaces what the user has written meanwhile at a path that was to go: it stops and asks', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir zz; echo old > zz/gone; echo a > a; echo b > b')
  const { id } = await bench.dispatch('rm zz/gone; echo A > a; echo B > b')
  let links = 0
  const failing = beside(bench, (operation) => {
    if (operation !== 'link') return
    links += 1
    if (links === 1) writeFileSync(join(bench.root, 'zz/gone'), 'mine\n')
    if (links === 2) throw failure('EIO')
  })
  await expect(failing.apply(id, all, 'test')).rejects.toMatchObject({
    code: 'changeset.neither_old_nor_new',
    details: { path: 'zz/gone' },
  })
  expect(read(bench, 'zz/gone')).toBe('mine\n')
  const { escalated, stopped } = await bench.changesets.get(id)
  expect({ escalated, stopped }).toMatchObject({
    escalated: expect.stringContaining('zz/gone') as string,
    stopped: { path: 'zz/gone' },
  })
  expect(await bench.changesets.settle(id, { path: 'zz/gone' }, 'mine')).toMatchObject({ state: 'applied' })
  expect(['zz/gone', 'a', 'b'].map((name) => read(bench, name))).toEqual(['mine\n', 'A\n', 'B\n'])
  await bench.changesets.undo(id, 'test')
  expect(['zz/gone', 'a', 'b'].map((name) => read(bench, name))).toEqual(['mine\n', 'a\n', 'b\n'])
})

test('what waited to land after a crash may be swept away: the next start lands all of it all the same', async () => {
  await using bench = await Bench.make()
  const id = await cutOff(bench)
  for (const name of staging(bench)) rmSync(join(bench.root, name), { recursive: true })
  await bench.changesets.recover()
  expect(names.map((name) => read(bench, name))).toEqual(names.map((name) => `new-${name}\n`))
  expect((await bench.changesets.get(id)).state).toBe('applied')
  expect(staging(bench)).toEqual([])
  await bench.changesets.undo(id, 'test')
  expect(names.map((name) => read(bench, name))).toEqual(names.map((name) => `old-${name}\n`))
})

test('and where it cannot go on, all of it is taken back, from the store where nothing was kept', async () => {
  await using bench = await Bench.make()
  const id = await cutOff(bench)
  for (const name of staging(bench)) rmSync(join(bench.root, name), { recursive: true })
  let renames = 0
  const failing = beside(bench, (operation, [, to]) => {
    if (operation === 'rename' && /\/f\d$/.test(String(to))) renames += 1
    if (renames === 2) {
      renames += 1
      throw failure('EACCES')
    }
  })
  await failing.recover()
  expect(names.map((name) => read(bench, name))).toEqual(names.map((name) => `old-${name}\n`))
  expect((await bench.changesets.get(id)).state).toBe('review')
  expect(staging(bench)).toEqual([])
})

test('nothing else lands in a root while an apply there has stopped half way, nor is its folder in a changeset', async () => {
  await using bench = await Bench.make()
  const id = await cutOff(bench)
  writeFileSync(join(bench.root, 'f6'), 'mine\n')
  await bench.changesets.recover()
  expect((await bench.changesets.get(id)).stopped).toMatchObject({ path: 'f6' })
  expect(staging(bench)).toHaveLength(1)
  const other = await bench.dispatch('rm -rf .orangery-apply-*; echo x > other')
  const { files } = await bench.changesets.get(other.id)
  expect(files.map(({ path }) => path)).toEqual(['other'])
  await expect(bench.changesets.apply(other.id, all, 'test')).rejects.toMatchObject({
    code: 'changeset.other_half_done',
    hint: expect.stringContaining(`changeset settle ${id}`) as string,
  })
  await bench.changesets.settle(id, { path: 'f6' }, 'theirs')
  expect(names.map((name) => read(bench, name))).toEqual(names.map((name) => `new-${name}\n`))
  expect((await bench.changesets.apply(other.id, all, 'test')).state).toBe('applied')
})

test('a file that was edited in place after a crash is told by its content, whatever its size and time say', async () => {
  await using bench = await Bench.make()
  const id = await cutOff(bench)
  await bench.user('cp -p f7 ../reference; echo mine-7 > f7; touch -r ../reference f7')
  await bench.changesets.recover()
  expect((await bench.changesets.get(id)).stopped).toMatchObject({ path: 'f7' })
  expect(read(bench, 'f7')).toBe('mine-7\n')
})
