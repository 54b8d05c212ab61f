import { expect, test } from 'vitest'
import type { EventBody, LoggedEvent } from '../../shared/events.ts'
import { timelineOf } from './timeline.ts'

const logged = (event: EventBody, seq: number): LoggedEvent => ({
  seq,
  at: '2026-01-28T12:05:00Z',
  prev: '',
  hash: '',
  event,
})

test('output marks are left out, everything a person decides on is told', () => {
  const events: EventBody[] = [
    { type: 'DispatchStarting', level: 1, command: ['npm', 'test'], roots: ['/r'] },
    { type: 'Output', bytes: 4096 },
    { type: 'EgressDecided', host: 'registry.test', port: 443, allowed: false, why: 'outputs none' },
    { type: 'BoundaryEscalated', from: 'readwrite', to: 'network', by: 'ada', why: 'needs packages' },
    { type: 'BoundaryEscalated', from: 'network', to: 'network', by: 'ada', why: 'needs another' },
    { type: 'DispatchEnded', status: 'failed', error: 'exit 2' },
  ]
  expect(timelineOf(events.map(logged)).map(({ title, tone }) => [title, tone])).toEqual([
    ['Dispatch at level 1, OS sandbox', 'neutral'],
    ['Refused registry.test:443', 'bad'],
    ['Boundary readwrite → network', 'accent'],
    ['Boundary network, other hosts', 'accent'],
    ['Failed', 'bad'],
  ])
})

test('an event this window does not know is shown by its name', () => {
  const unknown = { type: 'SomethingNew' } as unknown as EventBody
  expect(timelineOf([logged(unknown, 1)])[0]?.title).toBe('SomethingNew')
})

test('of captures in a row the last is told, whatever was printed between them', () => {
  const captured = (files: number): EventBody => ({ type: 'ChangesetCaptured', files, revision: 'a1b2' })
  const events: EventBody[] = [
    captured(1),
    { type: 'Output', bytes: 10 },
    captured(2),
    { type: 'Note', text: 'widened' },
    captured(3),
  ]
  expect(timelineOf(events.map(logged)).map(({ title }) => title)).toEqual([
    'Captured 2 changed files',
    'Note',
    'Captured 3 changed files',
  ])
})

test('the config asks for nothing: it tells what could not be narrowed', () => {
  const told = { type: 'BoundaryRequested', request: 'r', to: 'readwrite', why: '', hosts: [] } as const
  const titles = ['config', 'claude'].map(
    (by) => timelineOf([logged({ ...told, hosts: [], by }, 1)])[0]?.title,
  )
  expect(titles).toEqual(['Still readwrite, beyond the config', 'Asked for readwrite'])
})
