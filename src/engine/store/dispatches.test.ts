import * as fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  dispatchDetailSchema,
  dispatchRowSchema,
  dispatchStatuses,
  isTerminal,
} from '../../shared/dispatch.ts'
import type { DispatchId } from '../../shared/ids.ts'
import { parseSandboxSpec } from '../../shared/spec.ts'
import { DispatchRecords } from './dispatches.ts'
import { openStore, type Store } from './index.ts'
import { aDispatch, anEffective, anOutcome, scratchFolder } from './testing.ts'

let scope: AsyncDisposableStack
let store: Store
beforeEach(async () => {
  scope = new AsyncDisposableStack()
  const scratch = scope.use(await scratchFolder())
  store = scope.use(await openStore(`${scratch.path}/data`))
})
afterEach(() => scope.disposeAsync())

const supervisor = { startedAt: '2026-01-28T12:05:01.000Z', supervisorPid: 4711, supervisorStartTicks: 99 }

function recorded(given: Parameters<typeof aDispatch>[0] = {}): DispatchId {
  const dispatch = aDispatch(given)
  store.dispatches.create(dispatch)
  return dispatch.id
}

describe('the tests of seed 0', () => {
  const spec =
    '{"tools_allowed":["Read","Grep"],  "working_dir":"/home/mk","access_mode":"workspace-write",\n"max_turns":50}\n'

  test('spawn with sandbox_spec: it is stored as given and read as the object it is', () => {
    const id = recorded({ sandboxSpec: spec })
    expect(store.dispatches.get(id).sandboxSpecText).toBe(spec)
    expect(store.dispatches.get(id).sandbox_spec).toEqual(JSON.parse(spec))
  })

  test('spawn without sandbox_spec: it is NULL', () => {
    const id = recorded()
    const row = store.database.sqlite.prepare('SELECT * FROM dispatches WHERE id = ?').get(id)
    expect(row).toMatchObject({ sandbox_spec: null, sandbox_effective: null, sandbox: null })
    expect(store.dispatches.get(id)).toMatchObject({ sandbox_spec: null, sandbox_effective: null })
  })

  test('update sandbox_effective at completion: it is stored with the terminal status', () => {
    const id = recorded({ sandboxSpec: spec })
    store.dispatches.markRunning(id, supervisor)
    expect(store.dispatches.finish(id, anOutcome())).toBe(true)
    expect(store.dispatches.get(id)).toMatchObject({
      status: 'completed',
      exit_code: 0,
      sandbox_effective: anEffective(),
      sandbox_spec: JSON.parse(spec),
    })
  })

  test('an attempt to update sandbox_spec is rejected', () => {
    const id = recorded({ sandboxSpec: spec })
    const update = store.database.sqlite.prepare('UPDATE dispatches SET sandbox_spec = ? WHERE id = ?')
    expect(() => update.run('{}', id)).toThrow(/immutable/)
    expect(() => update.run(null, id)).toThrow(/immutable/)
    expect(store.dispatches.get(id).sandboxSpecText).toBe(spec)
  })
})

test('any JSON in, the same bytes out, through every status', () => {
  const texts = fc.json().chain((json) => fc.constantFrom(json, ` ${json}\n`, `\t${json}\r\n`))
  let second = 0
  const ends = dispatchStatuses.filter((status) => isTerminal(status) && status !== 'preflight_failed')
  fc.assert(
    fc.property(texts, fc.constantFrom(...ends), (text, status) => {
      const createdAt = new Date(Date.UTC(2026, 0, 1) + second++ * 1000)
      const id = `${createdAt.toISOString().replaceAll(/\D/g, '').slice(0, 14)}-0000` as DispatchId
      recorded({ id, sandboxSpec: text })
      store.dispatches.markRunning(id, supervisor)
      store.dispatches.finish(id, anOutcome({ status: status as 'completed' }))
      const row = store.database.sqlite
        .prepare('SELECT CAST(sandbox_spec AS BLOB) AS bytes FROM dispatches WHERE id = ?')
        .get(id) as { bytes: Buffer }
      expect(row.bytes.equals(Buffer.from(text, 'utf8'))).toBe(true)
      expect(store.dispatches.get(id)).toMatchObject({
        sandboxSpecText: text,
        sandbox_spec: JSON.parse(text),
        status,
      })
    }),
    { numRuns: 60 },
  )
})

test('any spec that is taken is kept byte for byte, what is not known of it unchanged; any other is bad input', () => {
  const known = fc.record(
    {
      access_mode: fc.constantFrom('read-only', 'workspace-write', 'rw', 7),
      max_turns: fc.oneof(fc.nat(), fc.double(), fc.string()),
      limits: fc.dictionary(fc.constantFrom('cpus', 'timeout_s', 'later'), fc.jsonValue()),
    },
    { requiredKeys: [] },
  )
  const unknown = fc.dictionary(fc.string(), fc.jsonValue())
  const objects = fc.tuple(fc.oneof(unknown, known), unknown).map(([some, more]) => ({ ...more, ...some }))
  const texts = fc.oneof(
    { weight: 4, arbitrary: objects.map((object) => JSON.stringify(object)) },
    fc.json(),
    fc.string(),
  )
  let taken = 0
  let refused = 0
  fc.assert(
    fc.property(texts, fc.constantFrom('', ' ', '\r\n\t'), (json, space) => {
      const text = `${space}${json}${space}`
      let spec: Readonly<Record<string, unknown>>
      try {
        spec = parseSandboxSpec(text)
      } catch (error) {
        refused++
        expect(error).toMatchObject({ kind: 'input', exitCode: 65 })
        return
      }
      const createdAt = new Date(Date.UTC(2027, 0, 1) + taken++ * 1000)
      const id = `${createdAt.toISOString().replaceAll(/\D/g, '').slice(0, 14)}-0000` as DispatchId
      recorded({ id, sandboxSpec: text })
      expect(store.dispatches.get(id).sandboxSpecText).toBe(text)
      const given = JSON.parse(text) as Record<string, unknown>
      // Nobody acts on a prototype: of what drivers read it is left out, in the text it stays.
      const keys = Object.keys(given).filter((key) => key !== '__proto__')
      for (const key of keys) expect(spec[key], key).toEqual(given[key])
    }),
    { numRuns: 150 },
  )
  // Otherwise everything was one or the other and nothing was proven.
  expect(Math.min(taken, refused)).toBeGreaterThan(5)
})

test('a parent that has ended gets no more children, and no row is left of the attempt', () => {
  const parent = recorded()
  store.dispatches.markRunning(parent, supervisor)
  const under = (options?: { parent: 'running' }) => {
    const child = aDispatch({ parentId: parent })
    store.dispatches.create(child, options)
    return child.id
  }
  // The control: while it runs it may.
  const before = under({ parent: 'running' })
  store.dispatches.finish(parent, anOutcome({ status: 'cancelled' }))
  expect(() => under({ parent: 'running' })).toThrow(/is cancelled and can have no more children/)
  expect(store.dispatches.children(parent)).toEqual([before])
  // A further turn of a child, after a review, is no new child.
  const turn = under()
  expect(store.dispatches.children(parent).toSorted()).toEqual([before, turn].toSorted())
})

test('what happened is written once: whoever comes second is told so and changes nothing', () => {
  const id = recorded()
  store.dispatches.markRunning(id, supervisor)
  expect(store.dispatches.finish(id, anOutcome({ status: 'timeout', exitCode: null }))).toBe(true)
  const first = store.dispatches.get(id)
  expect(store.dispatches.finish(id, anOutcome({ status: 'interrupted' }))).toBe(false)
  store.dispatches.setBoundary(id, 'full')
  expect(() => store.dispatches.markRunning(id, supervisor)).toThrow(/is timeout, not starting/)
  expect(store.dispatches.get(id)).toEqual(first)
})

test('a failed preflight is a row with its reasons, ended at once, and nothing was effective', () => {
  const id = recorded({ status: 'preflight_failed', error: 'no bubblewrap' })
  expect(store.dispatches.get(id)).toMatchObject({
    status: 'preflight_failed',
    error: 'no bubblewrap',
    sandbox_effective: null,
  })
  expect(store.dispatches.get(id).ended_at).not.toBeNull()
  expect(store.dispatches.unfinished()).toEqual([])
  const other = recorded()
  expect(() => store.dispatches.finish(other, anOutcome({ status: 'preflight_failed' }))).toThrow(
    /nothing ran/,
  )
})

test('rows and details are what the contract says they are', () => {
  const id = recorded({
    name: 'fix it',
    parentId: 'p',
    role: 'builder',
    phase: 'build',
    prompt: 'do',
    sandbox: 'full',
  })
  store.dispatches.markRunning(id, supervisor)
  store.database.sqlite
    .prepare(`INSERT INTO changesets (id, state, files, insertions, deletions) VALUES (?, 'review', 2, 3, 4)`)
    .run(id)
  const [row] = store.dispatches.list({ limit: 1 })
  expect(dispatchRowSchema.parse(row)).toEqual(row)
  expect(row?.changeset).toEqual({ id, state: 'review', files: 2, insertions: 3, deletions: 4 })
  const detail = store.dispatches.get(id)
  expect(dispatchDetailSchema.parse(detail)).toMatchObject({ id, name: 'fix it', roots: ['/project'] })
  expect(detail).toMatchObject({ supervisorPid: 4711, supervisorStartTicks: 99, repoId: null })
})

test('a dispatch is found by its id or a unique beginning of it, never by its name', () => {
  const one = recorded({ id: '20260128120500-b7c9' as DispatchId, name: 'deploy' })
  const two = recorded({ id: '20260128120500-b7d0' as DispatchId })
  recorded({ id: '20260129000000-0000' as DispatchId })
  expect(store.dispatches.resolve(one)).toBe(one)
  expect(store.dispatches.resolve('20260128120500-b7c')).toBe(one)
  expect(store.dispatches.resolve('20260128120500-b7d')).toBe(two)
  const failure = (reference: string) => {
    try {
      return store.dispatches.resolve(reference)
    } catch (error) {
      return error
    }
  }
  expect(failure('2026012812')).toMatchObject({ code: 'dispatch.ambiguous', exitCode: 66 })
  for (const reference of ['deploy', '', 'x', '%', '*', '2026012812%', 'b7c9', "' OR 1=1 --"]) {
    expect(failure(reference), reference).toMatchObject({ code: 'dispatch.not_found', exitCode: 66 })
  }
})

test('a full id is never ambiguous, even where a longer one begins with it', () => {
  const id = recorded({ id: '20260128120500-b7c9' as DispatchId })
  recorded({ id: '20260128120500-b7c9x' as DispatchId })
  expect(store.dispatches.resolve(id)).toBe(id)
})

test('what is not there is not found, whatever is asked of it', () => {
  const id = '20260128120500-ffff' as DispatchId
  const notFound = expect.objectContaining({ code: 'dispatch.not_found' })
  expect(() => store.dispatches.get(id)).toThrow(notFound)
  expect(() => store.dispatches.markRunning(id, supervisor)).toThrow(notFound)
  expect(() => store.dispatches.setBoundary(id, 'full')).toThrow(notFound)
  expect(() => store.dispatches.finish(id, anOutcome())).toThrow(notFound)
  expect(store.dispatches.children(id)).toEqual([])
})

test('an id that is taken is told apart from every other failure, so that the caller can draw another', () => {
  const id = recorded()
  expect(() => recorded({ id })).toThrow(expect.objectContaining({ code: 'dispatch.exists', kind: 'busy' }))
})

test('pages run from the newest to the oldest without a gap or a repetition, also within one millisecond', () => {
  const created: string[] = []
  for (let index = 0; index < 25; index++) {
    const createdAt = new Date(Date.UTC(2026, 0, 1) + Math.floor(index / 4)).toISOString()
    created.push(
      recorded({
        id: `20260101000000-${(index * 7919).toString(16).padStart(4, '0')}` as DispatchId,
        createdAt,
      }),
    )
  }
  const seen: string[] = []
  for (let before: string | undefined; ;) {
    const page = store.dispatches.list({ limit: 4, before })
    seen.push(...page.map((row) => row.id))
    before = page.at(-1)?.id
    if (before === undefined) break
  }
  expect(seen).toHaveLength(25)
  expect(new Set(seen)).toEqual(new Set(created))
  const times = seen.map((id) => store.dispatches.get(id as DispatchId).created_at)
  expect(times).toEqual(times.toSorted().reverse())
})

test('what has not ended or waits for a review is listed however old it is, after the newest, once and in order', () => {
  const { sqlite } = store.database
  const at = (second: number) => ({
    id: `2026010100000${second}-0000` as DispatchId,
    createdAt: `2026-01-01T00:00:0${second}.000Z`,
  })
  const ended = (second: number) => {
    const id = recorded(at(second))
    store.dispatches.markRunning(id, supervisor)
    store.dispatches.finish(id, anOutcome())
    return id
  }
  const changeset = sqlite.prepare('INSERT INTO changesets (id, state) VALUES (?, ?)')
  const reviewed = ended(0)
  changeset.run(reviewed, 'review')
  const running = recorded(at(1))
  changeset.run(ended(2), 'applied')
  const laterTurn = ended(3)
  sqlite
    .prepare(`INSERT INTO changeset_turns (dispatch_id, changeset_id, at, by) VALUES (?, ?, '', 'person')`)
    .run(laterTurn, reviewed)
  ended(4)
  const newest = [recorded(at(6)), ended(5)]
  const listed = (options: Parameters<typeof store.dispatches.list>[0]) =>
    store.dispatches.list(options).map(({ id }) => id)
  expect(listed({ limit: 2, waiting: true })).toEqual([...newest, laterTurn, running, reviewed])
  expect(listed({ limit: 2 })).toEqual(newest)
  expect(store.dispatches.list({ limit: 1, waiting: true }).at(-1)).toMatchObject({
    id: reviewed,
    changeset: { id: reviewed, state: 'review' },
  })
  expect(listed({ limit: 9, waiting: true })).toEqual(listed({ limit: 9 }))
})

test('children are listed under their parent, oldest first, and a grandchild is not a child', () => {
  const parent = recorded()
  const children = [1, 2].map((second) =>
    recorded({ parentId: parent, createdAt: `2026-01-01T00:00:0${second}.000Z` }),
  )
  recorded({ parentId: children[0]! })
  expect(store.dispatches.children(parent)).toEqual(children)
})

test('no query walks the whole table, so that 100,000 dispatches cost what ten do', () => {
  const { sqlite } = store.database
  const queries: string[] = []
  const watched = new Proxy(sqlite, {
    get: (target, name) => {
      if (name !== 'prepare') return Reflect.get(target, name) as unknown
      return (text: string) => {
        queries.push(text)
        return target.prepare(text)
      }
    },
  })
  const records = new DispatchRecords({ ...store.database, sqlite: watched }, () => {})
  const dispatch = aDispatch()
  records.create(dispatch)
  records.markRunning(dispatch.id, supervisor)
  records.setBoundary(dispatch.id, 'full')
  records.finish(dispatch.id, anOutcome())
  records.get(records.resolve(dispatch.id.slice(0, -1)))
  records.list({ limit: 1, before: records.list({ limit: 1 })[0]?.id })
  records.list({ limit: 1, waiting: true })
  records.children(dispatch.id)
  records.unfinished()
  const plans = queries
    .filter((text) => !text.startsWith('insert'))
    .map((text) => {
      const nothing = Array.from({ length: text.split('?').length - 1 }, () => null)
      const steps = sqlite.prepare(`EXPLAIN QUERY PLAN ${text}`).all(...nothing) as { detail: string }[]
      return { text, steps: steps.map((step) => step.detail) }
    })
  expect(plans.length).toBeGreaterThan(8)
  const walks = plans.filter(({ steps }) =>
    steps.some((step) => /^SCAN (?!.*(dispatches_(newest|unfinished)|changesets_in_review))/.test(step)),
  )
  expect(walks).toEqual([])
  const inOrder = plans.filter(({ steps }) =>
    steps.some((step) => step.includes('SCAN') && step.includes('newest')),
  )
  // Only the newest page begins at the end of its index and stops after its rows.
  expect(inOrder.map(({ text }) => text.includes('where'))).toEqual([false])
})

test('rows of programs that were free with types and words are shown and take nothing else down', () => {
  store.database.sqlite
    .prepare(
      `INSERT INTO dispatches (id, status, created_at, roots, command, sandbox_spec, level, boundary, prompt)
       VALUES ('d1', 'spawned', '1769601900', '{"not":"a list"}', 'not json', '{broken', 9, 'root', x'ff')`,
    )
    .run()
  const [row] = store.dispatches.list({ limit: 1 })
  expect(dispatchRowSchema.parse(row)).toMatchObject({
    id: 'd1',
    status: 'interrupted',
    recorded_status: 'spawned',
    created_at: '2026-01-28T12:05:00.000Z',
    roots: [],
    command: [],
    level: null,
    boundary: null,
  })
  expect(store.dispatches.get(store.dispatches.resolve('d1')).sandbox_spec).toBe('{broken')
})
