import type { Captured } from '../../changeset/index.ts'
import { expireArchive, disposeWorkspace, updateInvocation } from '../../workspace/index.ts'
import { recoverLandings } from '../landing/cutOffLandings.ts'
import { noteAgentCommits } from './inside.ts'
import type { Job } from '../prepare/job.ts'
import { landWaiting } from '../landing/landings.ts'
import { notCaptured } from '../record/lateCapture.ts'
import { Course, lead, type LeadOptions } from './lead.ts'
import { endOrphanedChildren } from '../recover/orphanedChildren.ts'
import type { Outcome } from './outcome.ts'
import type { Parts } from '../parts.ts'
import { mirror } from '../recover/reconcile.ts'

/**
 * Leads one dispatch from its workspace to its end. Whatever happens, the row becomes terminal, nothing is
 * left running, and what the agent wrote waits for review.
 */
export async function supervise(parts: Parts, job: Job, options: LeadOptions): Promise<Outcome> {
  await using course = new Course(job.contract, options.onEvent)
  let outcome: Outcome
  try {
    outcome = await lead(parts, job, options, course)
  } catch (thrown) {
    const error = firstOf(thrown)
    const why = error instanceof Error ? error.message : String(error)
    outcome = { status: 'failed', exitCode: null, signal: null, error: why }
  }
  const error = await finish(parts, job, course, outcome)
  // A signal reached only us; who was told to end the family does it twice, which does no harm.
  if (outcome.status === 'cancelled') await endOrphanedChildren(parts).catch(() => {})
  return { ...outcome, error }
}

/** What went wrong first: letting go of the rest may have failed for the same reason. */
const firstOf = (error: unknown): unknown =>
  error instanceof SuppressedError ? firstOf(error.suppressed) : error

/** The last capture, the record and the tidying; each happens whatever became of the others. */
async function finish(
  parts: Parts,
  job: Job,
  { workspace, log, seen, claims }: Course,
  outcome: Outcome,
): Promise<string | null> {
  const { layout, store, changesets } = parts
  const { id, project } = job
  let error = outcome.error
  let changed = false
  let commits: NonNullable<Captured['commits']> = []
  if (workspace !== undefined && workspace.strategy !== 'none') {
    try {
      const capture = await changesets.capture(workspace, { final: true })
      changed = capture !== null
      commits = capture?.commits ?? []
      if (capture)
        log?.append({ type: 'ChangesetCaptured', revision: capture.revision, files: capture.files })
    } catch (reason) {
      // What was written stays where it is: better a workspace too many than work lost.
      changed = true
      error = notCaptured(error, reason)
    }
  }
  if (workspace !== undefined) {
    const note = (text: string) => log?.append({ type: 'Note', text })
    if (await noteAgentCommits(parts, project.commonDir, workspace, job.contract, commits, note))
      changed = true
  }
  if (job.continues !== null) changesets.endTurn(job.continues, error ?? 'the agent ended')
  log?.append({ type: 'DispatchEnded', status: outcome.status, error })
  await log?.close().catch((reason: unknown) => {
    error ??= `event log: ${reason instanceof Error ? reason.message : String(reason)}`
  })
  if (workspace !== undefined) {
    seen.diskMb = await seen.measureDisk(workspace.dir)
    await updateInvocation(layout, project.repoId, id, { status: outcome.status }).catch(() => {})
  }
  // Tidied before the row says it is over: whoever waits for the end finds nothing left.
  // A sandbox that somebody made beforehand is his to end.
  const isOwn = workspace?.strategy !== 'worktree' || (!job.entersInvocation && job.continues === null)
  if (workspace !== undefined && !changed && isOwn)
    await disposeWorkspace(workspace, { archive: false }).catch(() => {})
  if (workspace !== undefined) await mirror(parts, project.repoId, id)
  // Let go before the row says it is over: whoever waits for the end may land on these folders at once.
  await claims.disposeAsync()
  store.dispatches.finish(id, {
    status: outcome.status,
    exitCode: outcome.exitCode,
    error,
    effective: seen.effective(),
    endedAt: new Date().toISOString(),
    lastEventHash: log?.lastHash ?? null,
  })
  // Whoever was kept from landing by this agent has waited for this.
  await recoverLandings(parts, { patienceMs: 0 }).catch(() => {})
  await landWaiting(parts).catch(() => {})
  // Who only ever uses the command line has no host that stays to do it.
  await changesets.expire().catch(() => {})
  await expireArchive(layout).catch(() => {})
  // Only where the user set a size; whoever waits for this dispatch has been told by now.
  await store.retention.trim().catch(() => {})
  return error
}
