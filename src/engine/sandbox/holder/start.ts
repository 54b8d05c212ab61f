import { closeSync, openSync, writeFileSync } from 'node:fs'
import { OrangeryError } from '../../../shared/errors.ts'
import type { RunningSandbox, SandboxIo } from '../../base/sandbox.ts'
import { makeCgroup } from '../limits/cgroups.ts'
import { completePlan } from '../plan/complete.ts'
import { LinuxSandbox } from './driver.ts'
import type { SpareHolder } from './holderProcess.ts'
import type { SandboxPlan } from '../plan/plan.ts'
import { hostsFile, hostsPath } from '../plan/view.ts'
import { makeAbsentFiles, removePlaceholders } from '../plan/writableFiles.ts'

export type StartOptions = {
  /** Used where it serves: for an agent on a terminal. */
  readonly spare?: SpareHolder | null
  /** Called when the rest is up to other processes than this one. */
  readonly onBegun?: () => void
}

/** Carries out a plan up to the agent's first instruction, which waits for `release()`. */
export async function startSandbox(
  plan: SandboxPlan,
  io: SandboxIo,
  { spare = null, onBegun }: StartOptions = {},
): Promise<RunningSandbox> {
  const complete = await completePlan(plan)
  writeFileSync(hostsPath(plan.request), hostsFile([]))
  await makeAbsentFiles(complete)
  const cgroup = plan.limits.cgroup === null ? null : await makeCgroup(plan.limits.cgroup)
  const nothing = io.stdin === 'ignore' ? openSync('/dev/null', 'r') : null
  const stdin = io.stdin === 'ignore' ? (nothing ?? 0) : io.stdin
  const sandbox = new LinuxSandbox(complete, { ...io, stdin }, spare, cgroup, () =>
    removePlaceholders(plan.request.workspace),
  )
  if (nothing !== null) closeSync(nothing)
  onBegun?.()
  try {
    await sandbox.enter()
    if (sandbox.probe.ok || cgroup === null) return sandbox
    // What could not even be tried looks like a guard that is missing.
    const { memory, pids } = await cgroup.readEvents()
    if (memory + pids === 0) return sandbox
    throw new OrangeryError('sandbox.probe_limited', 'the self-probe: a limit was reached while it ran')
  } catch (error) {
    await sandbox[Symbol.asyncDispose]()
    const { limits } = await sandbox.ended
    // A host that keeps us from watching (an old kernel, a container's own filter) still has the sandbox.
    if (error instanceof OrangeryError && error.code === 'sandbox.watch_failed')
      return startSandbox({ ...plan, watches: null }, io)
    if (limits.length === 0) throw error
    const named = limits.join(' and ')
    throw new OrangeryError(
      'sandbox.limit_too_small',
      `the ${named} limit: too small for a sandbox to start in, give it more`,
      { kind: 'input', cause: error },
    )
  }
}
