import { expect, test } from 'vitest'
import type { BoundaryRequest } from '../../../shared/escalation.ts'
import { answerInWords } from './answerWords.ts'

test('an agent reads what it was given, where that is less than it asked for', () => {
  const asked = { to: 'network', hosts: ['a.test:443'], reason: '', waitMs: 0 } as const
  const answer = (to: 'network' | 'readwrite') =>
    answerInWords(asked, {
      status: 'approved',
      to,
      hosts: asked.hosts,
      answer: null,
    } as unknown as BoundaryRequest).message
  expect(answer('network')).toBe('network is granted')
  expect(answer('readwrite')).toBe('a.test:443 at readwrite is granted')
})

test('an agent whose question was closed by a narrowing reads so, and that it may ask again', () => {
  const asked = { to: 'network', hosts: ['a.test:443'], reason: '', waitMs: 0 } as const
  const closed = (answer: object | null) =>
    answerInWords(asked, { ...asked, status: 'closed', answer } as unknown as BoundaryRequest)
  const message = 'it was narrowed to readonly meanwhile: ask again for what is still needed'
  expect(closed({ message })).toEqual({ status: 'closed', message })
  expect(closed(null).message).toBe('nobody answered in time')
})
