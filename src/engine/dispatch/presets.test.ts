import { expect, test } from 'vitest'
import type { AgentCard } from '../../shared/card.ts'
import type { Parts } from './parts.ts'
import { withPresets } from './presets.ts'

test('a pin on localhost is refused before anything is made, by whatever name it is below it; another name is not', async () => {
  const [parts, card] = [{} as Parts, {} as AgentCard]
  const pinned = (name: string) =>
    withPresets(parts, { outputs: { allow: [name], pins: { [name]: '127.0.0.1:5432' } } }, card, [])
  for (const name of ['localhost:5432', 'db.localhost', 'LOCALHOST:80'])
    await expect(pinned(name)).rejects.toMatchObject({ code: 'spec.localhost_pin', kind: 'input' })
  expect(await pinned('db.test:5432')).toMatchObject({ expansions: [] })
})
