import { expect, test } from 'vitest'
import type { AgentCard } from '../../../shared/card.ts'
import type { SandboxSpec } from '../../../shared/spec.ts'
import type { Parts } from '../parts.ts'
import { withPresets } from './presets.ts'

test('a pin on localhost or a loopback address is refused before anything is made, by whatever name it is below it; another name is not', async () => {
  const [parts, card] = [{} as Parts, {} as AgentCard]
  const pinned = (name: string) =>
    withPresets(parts, { outputs: { allow: [name], pins: { [name]: '127.0.0.1:5432' } } }, card, [])
  for (const name of [
    'localhost:5432',
    'db.localhost',
    'LOCALHOST:80',
    '127.0.0.1:80',
    '127.1',
    '[::1]:80',
    '[::ffff:127.0.0.1]',
  ])
    await expect(pinned(name)).rejects.toMatchObject({ code: 'spec.localhost_pin', kind: 'input' })
  expect(await pinned('db.test:5432')).toMatchObject({ expansions: [] })
})

test('an allowed host that no rule opens is refused with the pin that would, before anything is made; one that is pinned is not', async () => {
  const allowed = (rule: string, pins = {}) =>
    withPresets({} as Parts, { outputs: { allow: [rule], pins } } as SandboxSpec, {} as AgentCard, [])
  for (const rule of ['localhost:5432', '127.0.0.1', '[::1]:80'])
    await expect(allowed(rule)).rejects.toThrowError('which only a pin under another name opens')
  for (const rule of ['localhost:5432', '127.0.0.1', '10.0.0.7:80', '[::1]:80'])
    await expect(allowed(rule)).rejects.toMatchObject({
      code: 'spec.own_place',
      kind: 'input',
      hint: expect.stringContaining('db.test:5432=127.0.0.1:5432'),
    })
  await allowed('10.0.0.7:80', { '10.0.0.7:80': '10.0.0.7:80' })
  await allowed('*.example.com')
  await allowed('1.1.1.1:53')
})
