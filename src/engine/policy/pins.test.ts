import { expect, test } from 'vitest'
import { agentCardSchema } from '../../shared/card.ts'
import type { SandboxSpec } from '../../shared/spec.ts'
import type { Contract } from '../base/contract.ts'
import { networkAt } from './capabilities.ts'
import { defaultConfig } from './config/merge.ts'
import { resolveContract } from './contract.ts'
import { withMaximum } from './maximum.ts'
import { pinsWithin } from './pins.ts'

const resolve = (spec: SandboxSpec | null, parent: Contract | null = null): Contract =>
  resolveContract({
    spec,
    legacySandbox: null,
    card: agentCardSchema.parse({ id: 'command', name: 'Command' }),
    phase: null,
    role: null,
    roots: ['/projects/a'],
    config: defaultConfig(),
    parent,
  })

const here = '127.0.0.1:1'
const networks = { '5.5.5.0/24': here, '2a00:5::/32': here }

test('an address that its parent is led away from by a network leads the child there too, and opens it nothing', () => {
  const parent = resolve({ boundary: 'network', outputs: { mode: 'open', pins: networks } })
  const reached = (spec: SandboxSpec | null, granted: string[] = []) => {
    const child = resolve(spec, parent)
    const { mode, pins } = networkAt(child, child.boundary, granted, defaultConfig())
    return { mode, pins }
  }
  expect(reached({ outputs: { mode: 'open' } })).toEqual({ mode: 'open', pins: networks })
  expect(reached({ phase: 'plan', outputs: { mode: 'open' } })).toEqual({ mode: 'open', pins: networks })
  const allow = ['5.5.5.5:80', '[2a00:5::5]', '5.5.6.5', 'b.test']
  const led = { mode: 'restricted', pins: { '5.5.5.5:80': here, '[2a00:5::5]': here } }
  expect(reached({ outputs: { allow } })).toEqual(led)
  expect(reached({ phase: 'plan', outputs: { allow } })).toEqual(led)
  expect(reached(null)).toEqual({ mode: 'none', pins: {} })
  expect(reached(null, ['5.5.5.5'])).toEqual({ mode: 'restricted', pins: { '5.5.5.5': here } })
})

test("a parent's pin opens a child no host that it did not ask for", () => {
  const pins = { 'api.test': here, 'lan.test:80': here }
  const parent = resolve({ boundary: 'network', outputs: { pins, allow: ['b.test'] } })
  const child = resolve({ outputs: { allow: ['b.test', 'api.test:443'] } }, parent)
  expect(networkAt(child, 'network', [], defaultConfig())).toMatchObject({
    allow: ['b.test', 'api.test:443'],
    pins: { 'api.test:443': here },
  })
})

test('of a pin holds what is allowed, however the two overlap, and of two for one host the narrower', () => {
  const there = '127.0.0.1:2'
  expect(pinsWithin({ '*.x.test:80': here }, ['a.x.test'])).toEqual({ 'a.x.test:80': here })
  expect(pinsWithin({ 'a.x.test': here }, ['*.x.test:80'])).toEqual({ 'a.x.test:80': here })
  expect(pinsWithin({ 'a.test:80': here }, ['a.test:81', '*.a.test', 'b.test'])).toEqual({})
  for (const [wide, narrow] of [
    ['a.test', 'a.test:80'],
    ['*.test', 'a.test'],
    ['*.test:80', 'a.test'],
  ] as const)
    for (const pins of [
      { [wide]: here, [narrow]: there },
      { [narrow]: there, [wide]: here },
    ])
      expect(pinsWithin(pins, ['a.test:80'])).toEqual({ 'a.test:80': there })
  const both = { '5.5.0.0/16': here, '5.5.5.0/24': there }
  expect(pinsWithin(both, ['5.5.5.5'])).toEqual({ '5.5.5.5': here })
  expect(pinsWithin({ ...both, '5.5.5.5:80': there, 'no/network': here }, ['5.5.5.5:80'])).toEqual({
    '5.5.5.5:80': there,
  })
})

test('the pin of a network holds in a read-only phase as that of a host does, and no longer than that', () => {
  const plan = { phase: 'plan', outputs: { pins: { ...networks, 'a.test': here } } } as const
  const config = defaultConfig()
  const pinsOf = (contract: Contract, at = config) => networkAt(contract, 'readonly', [], at).pins
  const contract = resolve(plan)
  expect(contract.boundary).toBe('readonly')
  expect(pinsOf(contract)).toEqual(plan.outputs.pins)
  const alone = resolve({ ...plan, outputs: { pins: networks } })
  expect(networkAt(alone, 'readonly', [], config)).toMatchObject({ mode: 'restricted', pins: networks })
  // Behind a boundary that was spelled out, or below a maximum, they wait.
  expect(pinsOf(resolve({ ...plan, boundary: 'readonly' }))).toEqual({})
  expect(pinsOf(contract, withMaximum(config, 'readwrite'))).toEqual({})
})
