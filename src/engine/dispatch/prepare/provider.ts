import type { AgentCard } from '../../../shared/card.ts'
import type { CheckResult } from '../../../shared/doctor.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { levelNames, type SandboxLevel } from '../../../shared/level.ts'
import type { Contract } from '../../base/contract.ts'
import type { RunningSandbox, SandboxIo, SandboxRequest } from '../../base/sandbox.ts'
import {
  lesserView,
  planSandbox,
  refusalOf,
  startSandbox,
  type HostFacts,
  type SandboxPlan,
  type StartOptions,
} from '../../sandbox/index.ts'

/** An agent as the corridor runs it, whoever made it: bare, or wrapped in a sandbox that it knows nothing of. */
export interface AgentProvider {
  readonly id: string
  readonly level: SandboxLevel
  readonly isWrapped: boolean
  /** Whether this host has what the level needs for this request, and what of the protection is less than elsewhere. */
  isAvailable(request: SandboxRequest): { readonly check: CheckResult; readonly lesser: readonly string[] }
  plan(request: SandboxRequest): SandboxPlan
  /** Up to the agent's first instruction. Disposing of what it gives ends everything inside, on every path. */
  invoke(plan: SandboxPlan, io: SandboxIo, options?: StartOptions): Promise<RunningSandbox>
}

function providerAt(card: AgentCard, level: SandboxLevel, host: HostFacts): AgentProvider {
  const plan = (request: SandboxRequest) => planSandbox({ ...request, level }, host)
  return {
    id: card.id,
    level,
    isWrapped: level > 0,
    plan,
    isAvailable(request) {
      const name = 'sandbox'
      try {
        const planned = plan(request)
        const detail = `level ${level} (${levelNames[level]}), ${planned.driver}`
        return { check: { name, ok: true, detail, fix: null }, lesser: lesserView(planned) }
      } catch (error) {
        if (!(error instanceof OrangeryError)) throw error
        return { check: { name, ok: false, detail: error.message, fix: error.hint ?? null }, lesser: [] }
      }
    },
    invoke: startSandbox,
  }
}

/** The agent of a card under a contract: the wrapped one where sandboxing is on, the bare one where it is off. */
export function resolveAgent(
  card: AgentCard,
  contract: Pick<Contract, 'level'>,
  host: HostFacts,
): AgentProvider {
  return providerAt(card, contract.level, host)
}

/** What can be said of the host before it is known what shall run there, and where. */
export function checkHost(
  contract: Pick<Contract, 'level' | 'limits'>,
  host: HostFacts,
): readonly CheckResult[] {
  const refusal = refusalOf(contract, host)
  return refusal === null
    ? []
    : [{ name: 'sandbox', ok: false, detail: refusal.message, fix: refusal.hint ?? null }]
}
