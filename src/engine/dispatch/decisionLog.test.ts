import { expect, test, vi } from 'vitest'
import type { EventBody } from '../../shared/events.ts'
import { DecisionLog } from './decisionLog.ts'

const decision = (host: string) => ({ host, port: 443, allowed: false, why: 'not allowed' })

test('the first of equal decisions is logged at once and the others as one line with their number', () => {
  vi.useFakeTimers()
  const events: EventBody[] = []
  const log = new DecisionLog((event) => events.push(event))
  for (let turn = 0; turn < 1000; turn++) log.add(decision('a.test'))
  log.add(decision('b.test'))
  expect(events).toMatchObject([{ host: 'a.test' }, { host: 'b.test' }])
  vi.advanceTimersByTime(1500)
  expect(events).toHaveLength(3)
  expect(events[2]).toMatchObject({ type: 'EgressDecided', host: 'a.test', count: 999 })
  log.add(decision('a.test'))
  expect(events[3]).toEqual({ type: 'EgressDecided', ...decision('a.test') })
  vi.useRealTimers()
})

test('a flood of different hosts is cut to a number, and the end writes what is still counted', () => {
  const events: EventBody[] = []
  const log = new DecisionLog((event) => events.push(event))
  for (let turn = 0; turn < 5000; turn++) log.add(decision(`h${turn}.test`))
  expect(events).toHaveLength(200)
  log.close()
  expect(events.at(-1)).toEqual({ type: 'Note', text: '4800 more network decisions within a second' })
})
