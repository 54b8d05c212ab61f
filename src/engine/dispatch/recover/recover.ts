import { access, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { SandboxEffective } from '../../../shared/effective.ts'
import type { EventBody } from '../../../shared/events.ts'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import type { Contract } from '../../base/contract.ts'
import { removeUnfinished } from '../../base/files.ts'
import { createRepoLock } from '../../base/lock.ts'
import type { Workspace } from '../../base/workspace.ts'
import { removePlaceholders, sweepCgroups } from '../../sandbox/index.ts'
import {
  createEventLog,
  hashOfUnwritten,
  proveEvents,
  type Outcome,
  type ProvenEvents,
  type StoredDispatch,
  type TerminalStatus,
} from '../../store/index.ts'
import {
  disposeWorkspace,
  hasWork,
  loadWorkspace,
  readInvocationMeta,
  updateInvocation,
} from '../../workspace/index.ts'
import { doorFolder } from '../supervise/agentDoor.ts'
import { readContract } from '../prepare/contractFile.ts'
import { controlPath } from '../supervise/control.ts'
import { Observations, termsInLog, termsOf } from '../record/effective.ts'
import { noteAgentCommits } from '../supervise/inside.ts'
import { isNotCaptured, notCaptured } from '../record/lateCapture.ts'
import { egressPath } from '../boundary/network.ts'
import type { Parts } from '../parts.ts'
import { isAlive } from '../../base/processes.ts'
import { mirror } from './reconcile.ts'

/** Rows of older releases do not name who starts them: one that has not come up in this time never will. */
const startPatienceMs = 30_000

async function isOrphaned(dispatch: StoredDispatch): Promise<boolean> {
  if (dispatch.supervisorPid === null) return Date.now() - Date.parse(dispatch.created_at) > startPatienceMs
  return !(await isAlive(dispatch.supervisorPid, dispatch.supervisorStartTicks ?? 0))
}

/**
 * Ends dispatches whose supervisor vanished as `interrupted`, with what their event log proves. One that cannot be
 * ended, on a disk that gives no answer say, does not keep the others waiting.
 */
export async function recover(parts: Parts): Promise<void> {
  const failures: unknown[] = []
  for (const dispatch of parts.store.dispatches.unfinished()) {
    if (await isOrphaned(dispatch)) await recoverOne(parts, dispatch).catch((error) => failures.push(error))
  }
  if (failures.length > 0) throw failures[0]
}

async function recoverOne(parts: Parts, dispatch: StoredDispatch): Promise<void> {
  await using _lock = await createRepoLock(parts.layout).acquire(`recover-${dispatch.id}`, {
    timeoutMs: 10_000,
  })
  const { status } = parts.store.dispatches.get(dispatch.id)
  if (status === 'starting' || status === 'running') await interrupt(parts, dispatch)
}

async function interrupt(parts: Parts, dispatch: StoredDispatch): Promise<void> {
  const { layout, store } = parts
  const { id, repoId } = dispatch
  await rm(controlPath(parts.runtime, id), { force: true })
  await rm(egressPath(parts.runtime, id), { force: true })
  await sweepCgroups(id)
  if (repoId !== null) {
    for (const folder of [layout.invocation(repoId, id), layout.changeset(repoId, id)]) {
      await removeUnfinished(folder)
    }
    await removeUnfinishedPacks(join(layout.objects(repoId), 'objects', 'pack'))
  }
  let outcome: Outcome = {
    status: 'interrupted',
    exitCode: null,
    error: 'its supervisor vanished',
    effective: null,
    endedAt: new Date().toISOString(),
    lastEventHash: null,
  }
  const hasBegun =
    dispatch.started_at !== null || (repoId !== null && (await hasLog(layout.events(repoId, id))))
  if (repoId !== null && hasBegun) {
    const path = layout.events(repoId, id)
    const workspace = await loadWorkspace(layout, repoId, id).catch(() => null)
    if (workspace !== null) {
      await rm(doorFolder(workspace.dir), { recursive: true, force: true })
      await removePlaceholders(workspace)
    }
    const contract = await readContract(parts, id).catch(() => null)
    // Opening repairs what the crash tore. To a log that is damaged or gone nothing is added.
    const anchor = { anchoredHash: store.dispatches.get(id).lastEventHash }
    const { problem: damage } = await proveEvents(path, () => {}, anchor)
    await using log = damage === null ? await createEventLog(path) : null
    const proven = await provenBy(path, anchor, contract, workspace)
    const { problem } = proven.chain
    const append = (event: EventBody) => void (problem === null && log?.append(event))
    outcome = { ...outcome, effective: proven.effective, exitCode: proven.exitCode }
    if (proven.ended !== null) outcome = { ...outcome, ...proven.ended }
    if (problem !== null) outcome = { ...outcome, error: withDamage(outcome.error, proven.chain) }
    if (proven.ended === null) {
      outcome = { ...outcome, error: await captureInto(parts, workspace, contract, append, outcome.error) }
    }
    const end: EventBody = { type: 'DispatchEnded', status: outcome.status, error: outcome.error }
    if (proven.ended === null) append(end)
    await log?.close()
    const lastEventHash = log === null || problem !== null ? hashOfUnwritten(proven.chain, end) : log.lastHash
    outcome = { ...outcome, lastEventHash }
    await updateInvocation(layout, repoId, id, { status: outcome.status }).catch(() => {})
    await mirror(parts, repoId, id)
  }
  if (repoId !== null) await tidyWorkspace(parts, repoId, id, outcome.error)
  const changeset = store.changesets.changesetOf(id)
  if (changeset !== id) parts.changesets.endTurn(changeset, 'the agent was interrupted')
  store.dispatches.finish(id, outcome)
}

/** As at the end of any run: where nothing was changed, no workspace stays. */
async function tidyWorkspace(
  parts: Parts,
  repoId: RepoId,
  id: DispatchId,
  error: string | null,
): Promise<void> {
  const { layout, store } = parts
  const workspace = await loadWorkspace(layout, repoId, id).catch(() => null)
  if (workspace === null || workspace.strategy === 'worktree' || isNotCaptured(error)) return
  // A later turn works in the workspace of the first.
  if (store.changesets.changesetOf(id) !== id || store.changesets.find(id) !== null) return
  if (!(await hasWork(workspace))) await disposeWorkspace(workspace, { archive: false }).catch(() => {})
}

/** Packs a capture was writing when its process was killed. */
async function removeUnfinishedPacks(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch((): string[] => [])) {
    const pid = /^tmp_(\d+)_[0-9a-f]{16}$/.exec(name)?.[1]
    if (pid !== undefined && !(await isAlive(Number(pid), 0))) await rm(join(folder, name), { force: true })
  }
}

const hasLog = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

function withDamage(error: string | null, { problem, isMissing }: ProvenEvents): string {
  const what = isMissing ? String(problem) : `the event log is damaged: ${problem}`
  return error === null ? what : `${error}; ${what}`
}

/** What the agent had written goes to review. Gives back the error, with what went wrong here. */
async function captureInto(
  parts: Parts,
  workspace: Workspace | null,
  contract: Contract | null,
  append: (event: EventBody) => void,
  error: string | null,
) {
  if (workspace === null || workspace.strategy === 'none') return error
  try {
    const capture = await parts.changesets.capture(workspace, { final: true })
    if (capture) append({ type: 'ChangesetCaptured', revision: capture.revision, files: capture.files })
    const meta = await readInvocationMeta(parts.layout, workspace.repoId, workspace.id)
    const note = (text: string) => append({ type: 'Note', text })
    await noteAgentCommits(parts, meta.common_dir, workspace, contract, capture?.commits ?? [], note)
    return error
  } catch (reason) {
    return notCaptured(error, reason)
  }
}

type Proven = {
  readonly effective: SandboxEffective | null
  /** Its own last word, where the supervisor only failed to write it into the row. */
  readonly ended: { readonly status: TerminalStatus; readonly error: string | null } | null
  readonly exitCode: number | null
  readonly chain: ProvenEvents
}

/** What the events say that are provably the supervisor's: one that somebody changed, or any after it, says nothing. */
async function provenBy(
  path: string,
  anchor: { readonly anchoredHash: string | null },
  contract: Contract | null,
  workspace: Workspace | null,
): Promise<Proven> {
  let seen = null as Observations | null
  let ended: Proven['ended'] = null
  let exitCode: number | null = null
  const chain = await proveEvents(
    path,
    ({ event, at }) => {
      // Ours, just now, and not part of the run.
      if (event.type === 'LogRepaired') return
      if (event.type === 'DispatchStarting') {
        const terms = termsInLog(event) ?? (contract === null ? null : termsOf(contract))
        if (terms !== null) seen ??= new Observations(terms)
      }
      seen?.observe(event, at)
      if (event.type === 'AgentEnded') exitCode = event.exit_code
      if (event.type === 'DispatchEnded' && event.status !== 'starting' && event.status !== 'running') {
        ended = { status: event.status, error: event.error }
      }
    },
    anchor,
  )
  // What it wrote still lies there to be measured; processor and memory went with the supervisor.
  if (seen !== null && workspace !== null) seen.diskMb = await seen.measureDisk(workspace.dir)
  return { effective: seen?.effective() ?? null, ended, exitCode, chain }
}
