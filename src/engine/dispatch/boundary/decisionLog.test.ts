import { expect, test, vi } from 'vitest'
import type { EventBody } from '../../../shared/events.ts'
import { DecisionLog } from './decisionLog.ts'

const decision = (host: string) => ({ host, port: 443, allowed: false, why: 'not allowed' })

test('the first denials that are equal are logged at once, since each program is told by them, and the others as one line with their number', () => {
  vi.useFakeTimers()
  const events: EventBody[] = []
  const log = new DecisionLog((event) => events.push(event))
  for (let turn = 0; turn < 1000; turn++) log.add(decision('a.test'))
  log.add(decision('b.test'))
  expect(events).toMatchObject([
    ...[1, 2, 3].map(() => ({ type: 'EgressDecided', ...decision('a.test') })),
    { host: 'b.test' },
  ])
  vi.advanceTimersByTime(1500)
  expect(events).toHaveLength(5)
  expect(events[4]).toMatchObject({ type: 'EgressDecided', host: 'a.test', count: 997 })
  log.add(decision('a.test'))
  expect(events[5]).toEqual({ type: 'EgressDecided', ...decision('a.test') })
  vi.useRealTimers()
})

test('of equal leaves, which nobody waits to read, only the first is logged at once', () => {
  const events: EventBody[] = []
  const log = new DecisionLog((event) => events.push(event))
  for (let turn = 0; turn < 10; turn++) log.add({ ...decision('a.test'), allowed: true })
  expect(events).toHaveLength(1)
  log.close()
  expect(events[1]).toMatchObject({ host: 'a.test', allowed: true, count: 9 })
})

test('a host that is let out is on record by name, however many were refused or let out in that second', () => {
  const events: EventBody[] = []
  const log = new DecisionLog((event) => events.push(event))
  for (let turn = 0; turn < 1200; turn++) log.add(decision(`10.0.0.${turn}`))
  for (let turn = 0; turn < 500; turn++) log.add({ ...decision('a.test'), port: turn, allowed: true })
  log.add({ ...decision('sent.test'), allowed: true })
  expect(events.at(-1)).toMatchObject({ host: 'sent.test', allowed: true })
  log.close()
  const notes = events.flatMap((event) => (event.type === 'Note' ? [event.text] : []))
  expect(notes).toEqual([
    '300 more connections within a second to hosts named before',
    '1000 more refusals within a second',
  ])
})

test('a flood of different hosts is cut to a number, and the end writes what is still counted', () => {
  const events: EventBody[] = []
  const log = new DecisionLog((event) => events.push(event))
  for (let turn = 0; turn < 5000; turn++) log.add(decision(`h${turn}.test`))
  // Again, and again at once.
  for (let turn = 0; turn < 5000; turn++) log.add(decision(`h${turn % 200}.test`))
  expect(events).toHaveLength(200)
  log.close()
  expect(events.at(-1)).toEqual({ type: 'Note', text: '4800 more refusals within a second' })
})
