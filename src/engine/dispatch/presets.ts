import { homedir } from 'node:os'
import type { AgentCard } from '../../shared/card.ts'
import type { CheckResult } from '../../shared/doctor.ts'
import type { SandboxSpec } from '../../shared/spec.ts'
import { expandOutputs, type Expansion } from '../egress/index.ts'

/** The spec as drivers act on it, with hosts in the place of presets; what the caller wrote stays on record. */
export async function withPresets(
  spec: SandboxSpec | null,
  card: AgentCard,
  roots: readonly string[],
): Promise<{ readonly spec: SandboxSpec | null; readonly expansions: readonly Expansion[] }> {
  if (spec?.outputs === undefined) return { spec, expansions: [] }
  const context = {
    home: homedir(),
    env: process.env,
    roots: spec.roots ?? roots,
    cardHosts: card.sandboxRequirements.hosts,
  }
  const { outputs, expansions } = await expandOutputs(spec.outputs, context)
  return { spec: { ...spec, outputs }, expansions }
}

/** What each preset means here, in the report that everyone sees before anything starts. */
export const presetChecks = (expansions: readonly Expansion[]): CheckResult[] =>
  expansions.map(({ preset, hosts }) => ({
    name: 'outputs',
    ok: true,
    detail: `@${preset} means ${hosts.join(', ')}`,
    fix: null,
  }))
