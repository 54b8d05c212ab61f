import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { watchedDisk } from '../../src/engine/changeset/disk.ts'
import { FaultBench, type Act } from './faultBench.ts'

const acts: readonly Act[] = ['capture', 'apply', 'undo']
const writing = new Set(['write', 'mkdir', 'link', 'symlink', 'truncate'])
const reading = new Set(['lstat', 'stat', 'list', 'read', 'readlink', 'close', 'sync'])

/**
 * The points that differ: the disk is the same ahead of an operation as it was ahead of the one before, unless
 * that one wrote. Opening counts as writing, for it may create.
 */
function distinctPoints(operations: readonly string[]): readonly number[] {
  return operations.flatMap((_, at) =>
    at === 0 || !reading.has(operations[at - 1] as string) ? [at + 1] : [],
  )
}

function failure(code: string): Error {
  return Object.assign(new Error(`${code}: injected`), { code })
}

/** After the next start everything is old or everything is new, and the records say which. */
async function expectWhole(it: FaultBench, act: Act, where: string, again = true): Promise<'old' | 'new'> {
  await using next = await it.open()
  await next.changesets.recover()
  const found = await it.bench.snapshot()
  expect(found === it.old || found === it.new, `${where}: neither old nor new\n${found}`).toBe(true)
  if (act === 'capture') {
    if (!again) return 'old'
    await next.act('capture')
    expect(await next.state(), where).toBe('review')
    return 'old'
  }
  const isNew = found === it.new
  const [oldState, newState] = act === 'apply' ? ['review', 'applied'] : ['applied', 'review']
  expect(await next.state(), where).toBe(isNew ? newState : oldState)
  if (!isNew && again) {
    await next.act(act)
    expect(await it.bench.snapshot(), `${where}: second try`).toBe(it.new)
  }
  return isNew ? 'new' : 'old'
}

test.each(acts)('a crash at any file-system operation of %s leaves all old or all new', async (act) => {
  await using it = await FaultBench.make(act)
  const operations = await it.count(act)
  const outcomes = { old: 0, new: 0 }
  const points = distinctPoints(operations)
  for (const [at, point] of points.entries()) {
    await it.reset()
    {
      // From the point on nothing reaches the disk any more, neither clean-up nor rollback.
      await using dying = await it.open(
        watchedDisk((_, count) => {
          if (count >= point) throw failure('EIO')
        }),
      )
      await dying.act(act).catch(() => {})
    }
    outcomes[await expectWhole(it, act, `${act} at ${point} (${operations[point - 1]})`, at % 5 === 0)] += 1
  }
  console.log(
    `${act}: ${operations.length} operations, crashed at all ${points.length} points that differ: ${outcomes.old} old, ${outcomes.new} new`,
  )
})

test.each(acts)('kill -9 in the middle of %s leaves all old or all new', async (act) => {
  await using it = await FaultBench.make(act)
  const { length } = await it.count(act)
  const stride = Math.max(1, Math.floor(length / 12))
  let killed = 0
  for (let point = 1; point <= length; point += stride) {
    await it.reset()
    const child = spawn(
      process.execPath,
      [
        join(import.meta.dirname, 'faultChild.ts'),
        it.bench.folder,
        act,
        String(point),
        JSON.stringify(it.workspace),
      ],
      { stdio: ['ignore', 'ignore', 'inherit'] },
    )
    const signal = await new Promise((resolve) => child.on('exit', (_, name) => resolve(name)))
    if (signal === 'SIGKILL') killed += 1
    await expectWhole(it, act, `kill -9 of ${act} at ${point}`)
  }
  expect(killed).toBeGreaterThan(0)
  console.log(`${act}: killed for real at ${killed} points`)
})

test.each(['apply', 'undo'] as const)(
  'a full disk or lost permission during %s changes nothing',
  async (act) => {
    await using it = await FaultBench.make(act)
    const operations = await it.count(act)
    let tried = 0
    for (const [code, hits] of [
      ['ENOSPC', (operation: string) => writing.has(operation)],
      ['EACCES', (operation: string) => operation === 'rename' || operation === 'open'],
    ] as const) {
      const points = operations.flatMap((operation, at) => (hits(operation) ? [at + 1] : []))
      for (const [at, point] of points.entries()) {
        // Every third is enough here: the crash test above has them all.
        if (at % 3 !== 0) continue
        tried += 1
        await it.reset()
        let failed: unknown = null
        {
          await using failing = await it.open(
            watchedDisk((operation, count) => {
              // A full disk stays full for everything that needs room; a permission is missing once.
              const isHit = code === 'ENOSPC' ? count >= point && writing.has(operation) : count === point
              if (isHit) throw failure(code)
            }),
          )
          failed = await failing.act(act).catch((error: unknown) => error)
        }
        const now = await it.bench.snapshot()
        const where = `${code} during ${act} at ${point} (${operations[point - 1]})`
        if (
          failed !== null &&
          !(failed instanceof Error && 'code' in failed && failed.code === 'changeset.apply_cut_off')
        ) {
          const clean = now.replaceAll(/^.*\.orangery-apply.*\n/gm, '')
          expect(clean === it.old || clean === it.new, `${where}: mixed\n${now}`).toBe(true)
        }
        await expectWhole(it, act, where, false)
      }
    }
    console.log(`${act}: failed at ${tried} points`)
  },
)
