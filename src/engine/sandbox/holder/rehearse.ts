import { completePlan } from '../plan/complete.ts'
import { describePlan } from '../plan/describe.ts'
import { bubblewrapOptions, holderOrders, mountTable } from './holder.ts'
import type { HostFacts } from '../host/host.ts'
import { hostMounts } from './holderProcess.ts'
import { planSandbox, type SandboxPlan } from '../plan/plan.ts'
import { judgeAnswers, judgeProcess } from './probe.ts'
import { watchProtected } from '../plan/protect.ts'
import { buildFilter } from '../seccomp/filter.ts'
import { attachTable, planStage, stepsToAdd } from './stage.ts'
import { attachOrders, gateOrders } from './stageOrders.ts'
import { NetworkCounters } from '../denials/turnedAway.ts'
import { usualRequest } from '../host/usual.ts'

/**
 * Goes through everything of a start that only reads or works something out: code that runs for the first time is
 * several times slower, and a spare has the time that an agent has not.
 */
export async function rehearseSandbox(host: HostFacts, dataDir: string): Promise<void> {
  const plan = await completePlan(planSandbox(usualRequest(dataDir), host))
  describePlan(plan)
  bubblewrapOptions(plan, null)
  mountTable(plan)
  holderOrders(plan, [], null, false, 'all')
  if (plan.seccomp !== null) buildFilter(plan.seccomp.rules, plan.seccomp.architecture)
  judgeAnswers(plan, '')
  judgeProcess(plan, process.pid)
  using counters = new NetworkCounters(process.pid)
  counters.read()
  rehearseStage(plan)
  await watchProtected(plan.request)
}

function rehearseStage(plan: SandboxPlan): void {
  const stage = planStage(plan, plan.request.workspace.dir, '')
  const added = stepsToAdd(stage, plan, '')
  if (added === null) return
  attachTable(stage, plan, added, hostMounts())
  attachOrders(stage, plan)
  gateOrders(plan, false)
}
