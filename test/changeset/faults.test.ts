import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, renameSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'vite'
import { afterAll, expect, test } from 'vitest'
import { few, FaultBench, isCapture, isReading, nested, watched, type Act } from './faultBench.ts'
import { makeFoldersInMemory } from '../inMemory.ts'
import { pictureOf } from './trees.ts'

await makeFoldersInMemory()

const acts: readonly Act[] = ['capture', 'apply', 'undo']
const writing = new Set(['create', 'write', 'mkdir', 'link', 'symlink', 'truncate', 'rename', 'makeStore'])

/** How often each kind of fault was tried. */
const tried: Record<string, number> = {}
const count = (kind: string, number = 1) => (tried[kind] = (tried[kind] ?? 0) + number)
afterAll(() => {
  const total = Object.values(tried).reduce((sum, number) => sum + number, 0)
  const parts = Object.entries(tried).map(([kind, number]) => `${number} ${kind}`)
  console.log(`faults: ${total} points tried (${parts.join(', ')})`)
})

function failure(code: string): Error {
  return Object.assign(new Error(`${code}: injected`), { code })
}

/** After the next start everything is old or everything is new, and the records say which. */
async function expectWhole(it: FaultBench, act: Act, where: string, again = true): Promise<'old' | 'new'> {
  await using next = await it.open()
  await next.changesets.recover()
  const found = it.picture()
  expect(found === it.old || found === it.new, `${where}: neither old nor new\n${found}`).toBe(true)
  if (isCapture(act)) {
    if (!again) return 'old'
    await next.act('capture')
    expect(await next.state(), where).toBe('review')
    return 'old'
  }
  const isNew = found === it.new
  const [oldState, newState] = act === 'undo' ? ['applied', 'review'] : ['review', 'applied']
  expect(await next.state(), where).toBe(isNew ? newState : oldState)
  if (!isNew && again) {
    await next.act(act)
    expect(it.picture(), `${where}: second try`).toBe(it.new)
  }
  return isNew ? 'new' : 'old'
}

// What lands as a commit is crashed in a file of its own, also at every call to git.
const crashed: readonly Act[] = ['look', 'capture', 'apply', 'undo']
test.each(crashed)('a crash at any file-system operation of %s leaves all old or all new', async (act) => {
  await using it = await FaultBench.make(act)
  const { operations, images } = await it.crashes(act)
  const outcomes = { old: 0, new: 0 }
  for (const [at, where] of images.entries()) {
    it.crash(at)
    outcomes[await expectWhole(it, act, where, at % 10 === 0)] += 1
  }
  count('crashes', operations)
  expect(images.length).toBeGreaterThan(20)
  console.log(
    `${act}: crashed at all ${operations} operations, ${images.length} different disks: ${outcomes.old} old, ${outcomes.new} new`,
  )
})

test.each(['apply', 'undo'] as const)(
  'a crash on the way back from a failed %s leaves all old or all new',
  async (act) => {
    await using it = await FaultBench.make(act)
    const operations = await it.count(act)
    // Between the two flushes originals are being replaced; half of them are when it fails.
    const [from, to] = [operations.indexOf('flush'), operations.lastIndexOf('flush')]
    const renames = [...operations.keys()].filter((at) => at > from && at < to && operations[at] === 'rename')
    const { images } = await it.crashes(act, 1 + (renames[Math.floor(renames.length / 2)] ?? 0))
    expect(images.length).toBeGreaterThan(10)
    for (const [at, where] of images.entries()) {
      it.crash(at)
      await expectWhole(it, act, `on the way back, ${where}`, false)
    }
    count('crashes on the way back', images.length)
  },
)

test.each(acts)('kill -9 at any file-system operation of %s leaves all old or all new', async (act) => {
  await using it = await FaultBench.make(act, few)
  const program = await childProgram()
  const operations = await it.count(act)
  // Ahead of every operation that finds the disk otherwise than the one before it did.
  const points = [...operations.keys()].filter((at) => at === 0 || !isReading(operations[at - 1] ?? ''))
  const startNext = (at: number) =>
    points[at] === undefined ? undefined : startChild(it, program, act, points[at] + 1)
  // The control: a child that nobody kills does it, and leaves its compiled code for the others.
  it.reset()
  const whole = startChild(it, program, act, 0)
  whole.stdin?.write('go\n')
  expect(await once(whole, 'exit')).toEqual([0, null])
  expect(it.picture()).toBe(it.new)
  // Others start while one is looked at: most of a child's life is loading our code.
  const waiting = [startNext(0), startNext(1)]
  for (const [at, point] of points.entries()) {
    const child = waiting.shift() as ChildProcess
    it.reset()
    child.stdin?.write('go\n')
    const [, signal] = (await once(child, 'exit')) as [number | null, string | null]
    expect(signal, `operation ${point + 1} of ${operations.length} was not reached`).toBe('SIGKILL')
    waiting.push(startNext(at + 2))
    await expectWhole(it, act, `kill -9 of ${act} at ${point + 1} (${operations[point]})`, at % 5 === 0)
    count('real kills')
  }
  console.log(`${act}: killed at all ${points.length} points of ${operations.length} that a disk can tell`)
})

/** The child as one file without what it does not use, which starts in a third of the time. */
let bundled: Promise<string> | undefined
function childProgram(): Promise<string> {
  const folder = join(import.meta.dirname, '../../.cache/fault-child')
  bundled ??= build({
    configFile: false,
    logLevel: 'error',
    ssr: { noExternal: true, external: ['better-sqlite3'] },
    build: {
      ssr: join(import.meta.dirname, 'faultChild.ts'),
      outDir: folder,
      emptyOutDir: true,
      target: 'node24',
    },
  }).then(() => join(folder, 'faultChild.js'))
  return bundled
}

function startChild(it: FaultBench, program: string, act: Act, point: number): ChildProcess {
  const args = [program, it.bench.folder, act, String(point), JSON.stringify(it.workspace)]
  const cache = join(import.meta.dirname, '../../.cache/node')
  return spawn(process.execPath, args, {
    stdio: ['pipe', 'ignore', 'inherit'],
    env: { ...process.env, NODE_COMPILE_CACHE: cache },
  })
}

const faults = {
  // A full disk stays full for everything that needs room.
  ENOSPC: { hits: (operation: string) => writing.has(operation), lasts: true, work: few },
  // A permission is missing once, whatever is done: with one change of each kind, since every operation is tried.
  EACCES: { hits: () => true, lasts: false, work: few },
}

test.each(acts)('a full disk or lost permission at any point of %s changes nothing', async (act) => {
  for (const [code, { hits, lasts, work }] of Object.entries(faults)) {
    await using it = await FaultBench.make(act, work)
    const operations = await it.count(act)
    const points = operations.flatMap((operation, at) => (hits(operation) ? [at + 1] : []))
    for (const point of points) {
      count(code)
      it.reset()
      let failed: unknown = null
      {
        await using failing = await it.open(
          watched((operation, now) => {
            if (lasts ? now >= point && hits(operation) : now === point) throw failure(code)
          }),
        )
        failed = await failing.act(act).catch((error: unknown) => error)
      }
      const where = `${code} during ${act} at ${point} (${operations[point - 1]})`
      const isCutOff =
        failed instanceof Error && 'code' in failed && failed.code === 'changeset.apply_cut_off'
      if (!isCutOff) {
        const now = it.picture().replaceAll(/^\.orangery-apply.*\n/gm, '')
        expect(now === it.old || now === it.new, `${where}: mixed\n${now}`).toBe(true)
      }
      await expectWhole(it, act, where, false)
    }
    console.log(`${act}: ${code} at all ${points.length} of ${operations.length} operations that can meet it`)
  }
})

test.each(['apply', 'undo'] as const)(
  'a parent swapped for a link at any point of %s leads nothing out of the project',
  async (act) => {
    await using it = await FaultBench.make(act, nested)
    const operations = await it.count(act)
    const outside = join(it.bench.folder, 'outside')
    // What is there is as the act expects it in the project: nothing but the way there tells them apart.
    it.reset()
    cpSync(join(it.bench.root, 'keep'), outside, { recursive: true, verbatimSymlinks: true })
    const before = pictureOf(outside)
    for (const point of operations.keys()) {
      count('swaps')
      it.reset()
      await using swapped = await it.open(
        watched((_, now) => {
          if (now !== point + 1) return
          renameSync(join(it.bench.root, 'keep'), join(it.bench.folder, 'aside'))
          symlinkSync(outside, join(it.bench.root, 'keep'))
        }),
      )
      await swapped.act(act).catch(() => {})
      expect(pictureOf(outside), `${act} at ${point + 1} (${operations[point]})`).toBe(before)
      renameSync(join(it.bench.folder, 'aside'), join(it.bench.folder, `aside-${point}`))
    }
  },
)
