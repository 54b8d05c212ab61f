import { expect, test } from 'vitest'
import { agentCardSchema } from '../../../shared/card.ts'
import { cardEnvironment } from './cardEnvironment.ts'

test('an agent gets the variables its card names, where they are set, and no others; what was said at spawn wins', () => {
  const card = agentCardSchema.parse({
    id: 'a',
    name: 'A',
    sandboxRequirements: { env: ['KEY', 'ABSENT', 'SAID'] },
  })
  const own = { KEY: 'mine', SAID: 'mine', SECRET: 'not asked for' }
  expect(cardEnvironment(card, own, { SAID: 'at spawn' })).toEqual({ KEY: 'mine', SAID: 'at spawn' })
})
