import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { accessModes, boundaryLevels, boundaryRank } from '../../shared/boundary.ts'
import { agentCardSchema, type AgentCard } from '../../shared/card.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { someHostCovers } from '../../shared/hosts.ts'
import { isolations } from '../../shared/level.ts'
import { outputModes, parseSandboxSpec, workspaceStrategies, type SandboxSpec } from '../../shared/spec.ts'
import type { Contract } from '../base/contract.ts'
import { networkAt } from './capabilities.ts'
import { defaultConfig } from './config/merge.ts'
import { resolveContract } from './contract.ts'

const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 3 })
const some = (...values: string[]) => fc.uniqueArray(fc.constantFrom(...values), { maxLength: 3 })
const hosts = some('a.test', 'a.test:443', '*.a.test', 'x.a.test', 'b.test', '*.b.test:80')
const amount = fc.integer({ min: 1, max: 9 })

const specs: fc.Arbitrary<SandboxSpec | null> = fc.option(
  fc
    .record({
      tools_allowed: optional(some('Read', 'Bash', 'Edit')),
      tools_denied: optional(some('Read', 'Bash', 'Edit')),
      access_mode: optional(fc.constantFrom(...accessModes)),
      boundary: optional(fc.constantFrom(...boundaryLevels)),
      max_turns: optional(amount),
      max_commands: optional(amount),
      changeset: optional(fc.constantFrom(...workspaceStrategies)),
      isolation: optional(fc.constantFrom(...isolations)),
      outputs: optional(
        fc.record({
          mode: optional(fc.constantFrom(...outputModes)),
          allow: optional(hosts),
          deny: optional(hosts),
        }),
      ),
      roots: optional(
        fc.uniqueArray(fc.constantFrom('/p', '/p/a', '/p/a/b', '/px', '/q'), { minLength: 1, maxLength: 2 }),
      ),
      hide: optional(some('.env*', 'secret')),
      on_limit: optional(fc.constantFrom('record' as const, 'stop' as const)),
      limits: optional(
        fc.record({ memory_mb: optional(amount), timeout_s: optional(amount), pids: optional(amount) }),
      ),
    })
    .map((record) => JSON.stringify(record))
    .filter((text) => {
      try {
        parseSandboxSpec(text)
        return true
      } catch {
        return false
      }
    })
    .map(parseSandboxSpec),
  { nil: null, freq: 5 },
)

const cards = fc.constantFrom(
  agentCardSchema.parse({ id: 'command', name: 'Command' }),
  agentCardSchema.parse({
    id: 'talker',
    name: 'Talker',
    sandboxRequirements: { hosts: ['a.test:443', 'c.test'] },
  }),
)

/** The contract, or null where the spec is refused. Nothing else may happen. */
function resolve(spec: SandboxSpec | null, card: AgentCard, parent: Contract | null): Contract | null {
  try {
    return resolveContract({
      spec,
      legacySandbox: null,
      card,
      phase: null,
      role: null,
      roots: ['/p/a'],
      config: defaultConfig(),
      parent,
    })
  } catch (error) {
    if (error instanceof OrangeryError && ['refused', 'input'].includes(error.kind)) return null
    throw error
  }
}

const atMost = (child: number | null | undefined, parent: number | null | undefined): boolean =>
  parent == null || (child != null && child <= parent)

test('whatever parent and child ask for, what the child gets is at most what its parent has', () => {
  let compared = 0
  fc.assert(
    fc.property(specs, cards, specs, cards, (parentSpec, parentCard, childSpec, childCard) => {
      const parent = resolve(parentSpec, parentCard, null)
      if (parent === null) return
      const child = resolve(childSpec, childCard, parent)
      if (child === null) return
      compared++
      expect(child.level).toBeGreaterThanOrEqual(Math.max(1, parent.level))
      expect(child.strategy).not.toBe('none')
      expect(boundaryRank(child.boundary)).toBeLessThanOrEqual(boundaryRank(parent.boundary))
      for (const root of child.roots) {
        expect(
          parent.roots.some((own) => root === own || root.startsWith(`${own}/`)),
          root,
        ).toBe(true)
      }
      expect(child.hide).toEqual(expect.arrayContaining([...parent.hide]))
      expect(child.toolsDenied).toEqual(expect.arrayContaining([...parent.toolsDenied]))
      if (parent.toolsAllowed !== null) {
        expect(parent.toolsAllowed).toEqual(expect.arrayContaining([...(child.toolsAllowed ?? ['any'])]))
      }
      for (const name of ['memory_mb', 'timeout_s', 'pids'] as const) {
        expect(atMost(child.limits[name], parent.limits[name]), name).toBe(true)
      }
      expect(atMost(child.maxTurns, parent.maxTurns)).toBe(true)
      expect(atMost(child.maxCommands, parent.maxCommands)).toBe(true)
      if (parent.onLimit === 'stop') expect(child.onLimit).toBe('stop')
      const reach = networkAt(child, child.boundary, [], defaultConfig())
      const most = networkAt(parent, parent.boundary, [], defaultConfig())
      if (most.mode !== 'open') {
        expect(reach.mode).not.toBe('open')
        if (reach.mode !== 'none') {
          expect(reach.allow.filter((host) => !someHostCovers(most.allow, host))).toEqual([])
        }
      }
      if (reach.mode !== 'none') {
        expect(most.deny.filter((host) => !someHostCovers(reach.deny, host))).toEqual([])
      }
    }),
    { numRuns: 600 },
  )
  // Otherwise everything was refused and nothing was proven.
  expect(compared).toBeGreaterThan(30)
})
