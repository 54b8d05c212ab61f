import { setTimeout as sleep } from 'node:timers/promises'
import { isTerminal } from '../../../shared/dispatch.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import { askSupervisor, controlPath } from './control.ts'
import type { Parts } from '../parts.ts'
import { isAlive } from '../../base/processes.ts'
import { recover } from '../recover/recover.ts'

/** A supervisor that takes longer to come up is not waited for; one that takes longer to answer hangs. */
const killPatienceMs = 10_000
/** The last capture of a large workspace takes its time; until then the row does not say that it is over. */
const finishPatienceMs = 60_000
/** How long a killed supervisor may take to be gone and its dispatch to be brought to its end. */
const deathPatienceMs = 10_000

/** Ends a dispatch and all below it. All at once: one that hangs must not keep the others running. */
export async function killFamily(parts: Parts, id: DispatchId, by: string): Promise<void> {
  const { dispatches } = parts.store
  const reached = new Set<DispatchId>()
  const results: PromiseSettledResult<void>[] = []
  const reach = async (each: DispatchId): Promise<void> => {
    reached.add(each)
    // Rows of other programs may name each other as parents.
    const further = () => dispatches.children(each).filter((child) => !reached.has(child))
    const below = further()
    results.push(...(await Promise.allSettled([killOne(parts, each, by), ...below.map(reach)])))
    // Its end is written, so that no more can be added: those spawned while we asked are the last.
    results.push(...(await Promise.allSettled(further().map(reach))))
  }
  await reach(id)
  const failed = results.find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

async function killOne(parts: Parts, id: DispatchId, by: string): Promise<void> {
  const hasEnded = () => isTerminal(parts.store.dispatches.get(id).status)
  const deadline = Date.now() + killPatienceMs
  if (hasEnded()) return
  const order = { op: 'kill', by } as const
  while ((await askSupervisor(controlPath(parts.runtime, id), order, killPatienceMs)) !== 'done') {
    await recover(parts)
    if (hasEnded()) return
    if (Date.now() >= deadline) return endUnanswering(parts, id, by)
    await sleep(50)
  }
  const late = Date.now() + finishPatienceMs
  while (!hasEnded() && Date.now() < late) await sleep(20)
}

/** Its supervisor is there and does not answer: stopped, or stuck. What runs in its sandbox dies with it. */
async function endUnanswering(parts: Parts, id: DispatchId, by: string): Promise<void> {
  const { dispatches } = parts.store
  const { status, supervisorPid: pid, supervisorStartTicks: ticks } = dispatches.get(id)
  if (status === 'starting') {
    // Who answers for it now may be the host that spawns it. It cannot become running from here.
    const error = `cancelled by ${by} before it ran`
    const endedAt = new Date().toISOString()
    const nothing = { exitCode: null, effective: null, lastEventHash: null }
    if (dispatches.finish(id, { status: 'cancelled', error, endedAt, ...nothing })) return
  }
  // Only with its start time does a pid name the process that was recorded.
  if (pid !== null && ticks && pid !== process.pid && (await isAlive(pid, ticks))) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // Gone by itself, or not ours to end: what the row says next tells.
    }
  }
  for (const deadline = Date.now() + deathPatienceMs; Date.now() < deadline; await sleep(50)) {
    await recover(parts)
    if (isTerminal(dispatches.get(id).status)) return
  }
  throw new OrangeryError('dispatch.cannot_kill', `${id}: its supervisor does not answer`, {
    kind: 'busy',
    hint: `End process ${pid ?? 'of its supervisor'} yourself, then try again.`,
  })
}
