import * as fc from 'fast-check'
import { appendFile, readdir, readFile, stat, symlink, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { loggedEventSchema, type EventBody, type LoggedEvent } from '../../../shared/events.ts'
import { scratchFolder } from '../testing.ts'
import { createEventLog, hashOfUnwritten, proveEvents, readEvents, verifyEvents } from './index.ts'

let scope: AsyncDisposableStack
let folder: string
let path: string
beforeEach(async () => {
  scope = new AsyncDisposableStack()
  folder = join(scope.use(await scratchFolder()).path, 'invocation')
  path = join(folder, 'events.ndjson')
})
afterEach(() => scope.disposeAsync())

const note = (text: string): EventBody => ({ type: 'Note', text })
const end: EventBody = { type: 'DispatchEnded', status: 'completed', error: null }

async function write(
  ...bodies: EventBody[]
): Promise<{ readonly hash: string; readonly logged: LoggedEvent[] }> {
  const log = await createEventLog(path)
  const logged = bodies.map((body) => log.append(body))
  await log.close()
  return { hash: log.lastHash, logged }
}

async function readAll(after = 0): Promise<LoggedEvent[]> {
  const read: LoggedEvent[] = []
  for await (const event of readEvents(path, { after, follow: false })) read.push(event)
  return read
}

const torn = async () => (await readdir(folder)).filter((name) => name.includes('.torn-'))

test('events come back in order, as the contract has them, and the log proves whole', async () => {
  const { hash, logged } = await write(note('one'), note('zwei ☂\u2028\n"'), end)
  const read = await readAll()
  expect(read).toEqual(logged)
  expect(read.map((event) => event.seq)).toEqual([1, 2, 3])
  for (const event of read) expect(loggedEventSchema.parse(event)).toEqual(event)
  expect(await verifyEvents(path, hash)).toEqual({ ok: true, events: 3, problem: null })
  expect(await readAll(2)).toEqual(logged.slice(2))
})

test('the log is for its owner alone, and never written through a link', async () => {
  await write(note('private'))
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  expect((await stat(folder)).mode & 0o777).toBe(0o700)
  const elsewhere = join(folder, 'elsewhere')
  await writeFile(elsewhere, '')
  await symlink(elsewhere, join(folder, 'linked.ndjson'))
  await expect(createEventLog(join(folder, 'linked.ndjson'))).rejects.toThrow(/ELOOP/)
})

test('bytes that only read the same are not the same', async () => {
  const { hash } = await write(note('lost: \ufffd'), end)
  const bytes = await readFile(path)
  const at = bytes.indexOf(Buffer.from('\ufffd'))
  await writeFile(path, Buffer.concat([bytes.subarray(0, at), Buffer.from([0xff]), bytes.subarray(at + 3)]))
  expect((await readAll())[0]?.event).toEqual(note('lost: \ufffd'))
  expect(await verifyEvents(path, hash)).toMatchObject({ ok: false })
})

test('whatever events say, any one changed byte is found', async () => {
  const { hash } = await write(
    note('a'),
    { type: 'ToolCall', id: '1', tool: 'Bash', title: 'ls', input: { x: [1] } },
    end,
  )
  const bytes = await readFile(path)
  await fc.assert(
    fc.asyncProperty(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), async (at, change) => {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ change
      await writeFile(path, changed)
      expect((await verifyEvents(path, hash)).ok).toBe(false)
    }),
    { numRuns: 150 },
  )
})

describe('tampering is found and named', () => {
  const lines = async () => (await readFile(path, 'utf8')).trimEnd().split('\n')
  const put = (kept: readonly string[]) => writeFile(path, kept.map((line) => `${line}\n`).join(''))

  test.each<readonly [string, (lines: string[]) => string[], RegExp]>([
    ['a line removed from the middle', (all) => all.toSpliced(1, 1), /line 2/],
    ['the first line removed', (all) => all.slice(1), /line 1/],
    ['the last line removed', (all) => all.slice(0, -1), /does not end with/],
    ['everything removed', () => [], /does not end with/],
    ['two lines exchanged', (all) => [all[0]!, all[2]!, all[1]!, ...all.slice(3)], /line 2/],
    ['a line repeated', (all) => [all[0]!, all[0]!, ...all.slice(1)], /line 2/],
    ['a line of rubbish added', (all) => [...all, '{}'], /line 5/],
    ['a space added', (all) => all.with(1, all[1]!.replace('{"type"', '{ "type"')), /line 2/],
    ['another field added', (all) => all.with(1, all[1]!.replace('{"seq"', '{"by":"me","seq"')), /line 2/],
  ])('%s', async (_, tamper, problem) => {
    const { hash } = await write(note('1'), note('2'), note('3'), end)
    await put(tamper(await lines()))
    expect(await verifyEvents(path, hash)).toMatchObject({
      ok: false,
      problem: expect.stringMatching(problem),
    })
  })

  test('a chain forged anew from the beginning is whole in itself, and the anchor gives it away', async () => {
    const { hash } = await write(note('the agent wrote /etc/passwd'), end)
    await truncate(path, 0)
    const forged = await write(note('the agent was good'), end)
    expect(await verifyEvents(path, forged.hash)).toMatchObject({ ok: true })
    expect(await verifyEvents(path, hash)).toMatchObject({ ok: false })
  })

  test('lines added after the recorded end are found', async () => {
    const { hash } = await write(note('1'), end)
    await write(note('one more'))
    expect(await verifyEvents(path, hash)).toMatchObject({ ok: false })
    expect(await verifyEvents(path, null)).toMatchObject({ ok: true, events: 3 })
  })

  test('a missing log is missing only to a record that has one, or to a dispatch that began', async () => {
    expect(await verifyEvents(path, null)).toEqual({ ok: true, events: 0, problem: null })
    expect(await verifyEvents(path, null, { hasBegun: true })).toMatchObject({
      ok: false,
      problem: 'the event log is missing',
    })
    expect(await verifyEvents(path, 'a'.repeat(64))).toMatchObject({
      ok: false,
      problem: 'the event log is missing',
    })
  })
})

describe('after a crash', () => {
  test('a log torn at any byte keeps every line before the tear and goes on from there', async () => {
    const { logged } = await write(note('first'), note('zweite ☂ Zeile'), note('third'))
    const whole = await readFile(path)
    const ends = [...whole.entries()].filter(([, byte]) => byte === 0x0a).map(([at]) => at)
    // Every byte around the line ends, and some of those between.
    const isTried = (length: number) => length % 17 === 0 || ends.some((at) => Math.abs(at - length) < 3)
    for (const length of Array.from({ length: whole.length + 1 }, (_, index) => index).filter(isTried)) {
      await writeFile(path, whole.subarray(0, length))
      // A line that lost nothing but its newline is whole.
      const kept = ends.filter((at) => at <= length).length
      const lost = length - Math.min(length, kept === 0 ? 0 : ends[kept - 1]! + 1)
      const { hash } = await write(note('after the crash'), end)
      expect((await readAll()).slice(0, kept)).toEqual(logged.slice(0, kept))
      expect(await verifyEvents(path, hash)).toEqual({
        ok: true,
        events: kept + (lost > 0 ? 3 : 2),
        problem: null,
        ...(lost > 0 && { torn: [{ bytes: lost, moved_to: expect.stringContaining('.torn-') }] }),
      })
    }
  })

  test.each(['{"seq":2,"at":"2026', '\0'.repeat(5000), '{"seq":2,"at"\0\0\0'])(
    'what a crash tore, and zeros a power cut leaves, are kept beside the log, and the log says so',
    async (tail) => {
      const { logged } = await write(note('whole'))
      await appendFile(path, tail)
      const { hash } = await write(end)
      const [name, ...others] = await torn()
      expect(others).toEqual([])
      expect(await readFile(join(folder, name!), 'utf8')).toBe(tail)
      const moved = { bytes: tail.length, moved_to: name }
      const [first, second] = await readAll()
      expect([first, second?.event]).toEqual([logged[0], { type: 'LogRepaired', ...moved }])
      expect(loggedEventSchema.parse(second)).toEqual(second)
      const proof = { ok: true, events: 3, problem: null, torn: [moved] }
      expect(await verifyEvents(path, hash)).toEqual(proof)
    },
  )

  test.each(['rubbish\nmore rubbish\n', '\n\n\n', '{"seq":9}\n{"seq":10}\n', 'rubbish\n{"seq":9,"at'])(
    'complete lines that are not what was written stay where they are and nothing is added to them: %j',
    async (tail) => {
      await write(note('whole'))
      await appendFile(path, tail)
      const before = await readFile(path)
      await expect(createEventLog(path)).rejects.toMatchObject({ code: 'events.damaged' })
      expect((await readFile(path)).equals(before)).toBe(true)
      expect(await torn()).toEqual([])
      expect(await verifyEvents(path, null)).toMatchObject({
        ok: false,
        events: 1,
        problem: 'line 2 is not what was written',
      })
    },
  )

  test('a damaged log does not prove whole when the damage is cut off after it was recorded', async () => {
    const { hash } = await write(note('1'))
    await appendFile(path, 'rubbish\n')
    const chain = await proveEvents(path)
    const recorded = hashOfUnwritten(chain, end)
    await truncate(path, (await readFile(path)).indexOf('rubbish'))
    // The control: for the record of its last line it is whole again.
    expect(await verifyEvents(path, hash)).toMatchObject({ ok: true })
    expect(await verifyEvents(path, recorded)).toMatchObject({ ok: false })
  })

  test('a damaged line further up is not hidden by the repair', async () => {
    await write(note('1'), note('2'), note('3'))
    const text = await readFile(path, 'utf8')
    await writeFile(path, text.replace('"text":"2"', '"text":"x"'))
    const { hash } = await write(end)
    expect(await verifyEvents(path, hash)).toMatchObject({
      ok: false,
      events: 1,
      problem: expect.stringMatching(/line 2/),
    })
    expect(await torn()).toEqual([])
  })

  test('a line that cannot be read is shown as damaged in its place', async () => {
    await write(note('1'), note('2'), note('3'))
    const [one, , three] = (await readFile(path, 'utf8')).split('\n')
    await writeFile(path, `${one}\nrubbish\n${three}\n`)
    expect((await readAll()).map(({ seq, event }) => [seq, event.type === 'Note' ? event.text : ''])).toEqual(
      [
        [1, '1'],
        [2, 'line 2 of the event log is damaged and cannot be shown'],
        [3, '3'],
      ],
    )
  })

  test('a very long last line is repaired without reading the rest', async () => {
    const { logged } = await write(note('x'.repeat(300_000)), note('y'.repeat(200_000)))
    await appendFile(path, 'z'.repeat(150_000))
    const { hash } = await write(end)
    expect((await readAll()).slice(0, 2)).toEqual(logged)
    expect(await verifyEvents(path, hash)).toMatchObject({ ok: true, events: 4 })
  })
})

test('appending keeps its order under load and nothing is lost on close', async () => {
  const log = await createEventLog(path)
  for (let index = 0; index < 5_000; index++) {
    log.append(note(String(index)))
    if (index % 500 === 0) await log.flush()
  }
  expect(log.backlog).toBeGreaterThan(0)
  await log.close()
  expect(log.backlog).toBe(0)
  expect((await readAll()).map(({ event }) => event.type === 'Note' && Number(event.text))).toEqual(
    Array.from({ length: 5_000 }, (_, index) => index),
  )
  expect(() => log.append(end)).toThrow(/closed/)
  await log.close()
})

test('events reach the file by themselves soon after they are appended', async () => {
  await using log = await createEventLog(path)
  log.append(note('soon'))
  for (let waited = 0; (await readAll()).length === 0; waited += 10) {
    expect(waited).toBeLessThan(5_000)
    await sleep(10)
  }
})

describe('following', () => {
  test('begins before the log exists, gives each event once, and ends with the dispatch', async () => {
    const seen: number[] = []
    const following = (async () => {
      for await (const event of readEvents(path, { after: 0, follow: true })) seen.push(event.seq)
    })()
    await sleep(20)
    const log = await createEventLog(path)
    for (let index = 0; index < 20; index++) {
      log.append(note('x'.repeat(index * 1000)))
      if (index % 5 === 0) await log.flush()
    }
    log.append(end)
    await log.close()
    await following
    expect(seen).toEqual(Array.from({ length: 21 }, (_, index) => index + 1))
  })

  test('ends at once when it is told to', async () => {
    await write(note('1'))
    const stop = new AbortController()
    const seen: number[] = []
    for await (const event of readEvents(path, { after: 0, follow: true, signal: stop.signal })) {
      seen.push(event.seq)
      setTimeout(() => stop.abort(), 10)
    }
    expect(seen).toEqual([1])
  })

  test('ends with a dispatch that ended without a last word, after everything it did say', async () => {
    const seen: number[] = []
    let isOver = false
    const follow = async (from: string) => {
      for await (const event of readEvents(from, { after: 0, follow: true, ended: () => isOver }))
        seen.push(event.seq)
    }
    const [following, nothing] = [follow(path), follow(join(folder, 'never.ndjson'))]
    await write(note('1'), note('2'))
    isOver = true
    await Promise.all([following, nothing])
    expect(seen).toEqual([1, 2])
  })

  test('a follower who read half a line is not misled when the repair takes it away', async () => {
    await write(note('1'))
    await appendFile(path, '{"seq":2,"half":"')
    const seen: number[] = []
    const following = (async () => {
      for await (const event of readEvents(path, { after: 0, follow: true })) seen.push(event.seq)
    })()
    while (seen.length === 0) await sleep(5)
    await write(note('2'), end)
    await following
    expect(seen).toEqual([1, 2, 3, 4])
  })
})
