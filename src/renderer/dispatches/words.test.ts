import { expect, test } from 'vitest'
import type { DispatchRow } from '../../shared/dispatch.ts'
import { arrange, standingOf, titleOf } from './words.ts'

let next = 0
function row(over: Partial<DispatchRow>): DispatchRow {
  next++
  return {
    id: `20260128120500-${next.toString(16).padStart(4, '0')}`,
    parent_id: null,
    name: null,
    agent: 'command',
    role: null,
    phase: null,
    prompt: null,
    status: 'completed',
    sandbox: null,
    exit_code: 0,
    error: null,
    created_at: '2026-01-28T12:05:00Z',
    started_at: null,
    ended_at: null,
    level: 1,
    boundary: 'readwrite',
    roots: ['/home/ada/shop'],
    command: ['npm', 'test'],
    changeset: null,
    ...over,
  } as DispatchRow
}
const review = (id = '') => ({ id, state: 'review', files: 1, insertions: 1, deletions: 0 }) as never

test('what waits for a person comes first, then what runs, then the past', () => {
  const old = row({ name: 'old' })
  const waiting = row({ name: 'waiting', changeset: review() })
  const running = row({ name: 'running', status: 'running' })
  const order = arrange([old, running, waiting], '').map((entry) =>
    entry.kind === 'group' ? entry.group : entry.row.name,
  )
  expect(order).toEqual(['waiting', 'waiting', 'running', 'running', 'earlier', 'old'])
})

test('children stand under their parent, and a circle of parents hides nobody', () => {
  const parent = row({ name: 'parent' })
  const child = row({ name: 'child', parent_id: parent.id })
  const one = row({ name: 'one' })
  const two = row({ name: 'two', parent_id: one.id })
  const circle = { ...one, parent_id: two.id }
  const order = arrange([child, two, circle, parent], '').flatMap((entry) =>
    entry.kind === 'row' ? [`${entry.row.name} ${entry.depth}`] : [],
  )
  expect(order).toEqual(['parent 0', 'child 1', 'two 0', 'one 1'])
})

test('a family stays together where its most urgent member is, and the heading counts who is urgent', () => {
  const parent = row({ name: 'parent', status: 'running' })
  const child = row({ name: 'child', parent_id: parent.id, changeset: review('child') })
  const other = row({ name: 'other', status: 'running' })
  const order = arrange([other, child, parent], '').map((entry) =>
    entry.kind === 'group' ? `${entry.group} ${entry.count}` : entry.row.name,
  )
  expect(order).toEqual(['waiting 1', 'parent', 'child', 'running 1', 'other'])
})

test('a changeset that took several turns waits once, at its latest', () => {
  const first = row({ name: 'first turn', changeset: review('20260128120500-0001') })
  const second = row({ name: 'second turn', changeset: review('20260128120500-0001') })
  const order = arrange([second, first], '').map((entry) =>
    entry.kind === 'group' ? entry.group : entry.row.name,
  )
  expect(order).toEqual(['waiting', 'second turn', 'earlier', 'first turn'])
})

test('search takes every word, anywhere in the record', () => {
  const one = row({ command: ['npm', 'run', 'build'], roots: ['/projects/shop'] })
  const two = row({ command: ['make'], roots: ['/projects/shop'] })
  const found = arrange([one, two], 'SHOP build').filter((entry) => entry.kind === 'row')
  expect(found).toHaveLength(1)
})

test('a dispatch is called by its name, else its prompt, else its command', () => {
  expect(titleOf({ name: 'n', prompt: 'p', command: ['c'], agent: 'a' })).toBe('n')
  expect(titleOf({ name: null, prompt: ' fix it\nplease', command: ['c'], agent: 'a' })).toBe('fix it')
  expect(titleOf({ name: null, prompt: null, command: ['npm', 'test'], agent: 'a' })).toBe('npm test')
  expect(titleOf({ name: '', prompt: '', command: [], agent: 'claude' })).toBe('claude')
})

test('what needs a person outshines how the process ended, and a foreign status keeps its own word', () => {
  expect(standingOf(row({ status: 'failed', changeset: review() })).label).toBe('Needs review')
  expect(standingOf(row({ status: 'running', changeset: review() })).label).toBe('Running')
  expect(standingOf(row({ status: 'interrupted', recorded_status: 'spawned' }))).toEqual({
    label: 'spawned',
    tone: 'neutral',
  })
})
