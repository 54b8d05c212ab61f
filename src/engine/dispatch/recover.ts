import { rm } from 'node:fs/promises'
import type { SandboxEffective } from '../../shared/effective.ts'
import type { Contract } from '../base/contract.ts'
import { createRepoLock } from '../base/lock.ts'
import { createEventLog, readEvents, type StoredDispatch } from '../store/index.ts'
import { loadWorkspace, updateInvocation } from '../workspace/index.ts'
import { readContract } from './contractFile.ts'
import { controlPath } from './control.ts'
import { Observations } from './effective.ts'
import type { Parts } from './parts.ts'
import { isAlive } from './processes.ts'

/** A dispatch that is recorded but whose supervisor has not come up in this time never will. */
const startPatienceMs = 30_000

async function isOrphaned(dispatch: StoredDispatch): Promise<boolean> {
  if (dispatch.supervisorPid === null) return Date.now() - Date.parse(dispatch.created_at) > startPatienceMs
  return !(await isAlive(dispatch.supervisorPid, dispatch.supervisorStartTicks ?? 0))
}

/** Ends dispatches whose supervisor vanished as `interrupted`, with what their event log proves. */
export async function recover(parts: Parts): Promise<void> {
  for (const dispatch of parts.store.dispatches.unfinished()) {
    if (!(await isOrphaned(dispatch))) continue
    await using _lock = await createRepoLock(parts.layout).acquire(`recover-${dispatch.id}`, {
      timeoutMs: 10_000,
    })
    const { status } = parts.store.dispatches.get(dispatch.id)
    if (status === 'starting' || status === 'running') await interrupt(parts, dispatch)
  }
}

async function interrupt(parts: Parts, dispatch: StoredDispatch): Promise<void> {
  const { layout, store, changesets } = parts
  const { id, repoId } = dispatch
  await rm(controlPath(parts.runtime, id), { force: true })
  let error = 'its supervisor vanished'
  let effective: SandboxEffective | null = null
  let lastEventHash: string | null = null
  if (repoId !== null) {
    const workspace = await loadWorkspace(layout, repoId, id).catch(() => null)
    const contract = await readContract(parts, id).catch(() => null)
    if (workspace !== null) {
      const log = await createEventLog(layout.events(repoId, id))
      if (contract !== null) effective = await provenBy(layout.events(repoId, id), contract)
      try {
        const capture =
          workspace.strategy === 'none' ? null : await changesets.capture(workspace, { final: true })
        if (capture)
          log.append({ type: 'ChangesetCaptured', revision: capture.revision, files: capture.files })
      } catch (reason) {
        error += `; capture: ${reason instanceof Error ? reason.message : String(reason)}`
      }
      log.append({ type: 'DispatchEnded', status: 'interrupted', error })
      await log.close()
      lastEventHash = log.lastHash
      await updateInvocation(layout, repoId, id, { status: 'interrupted' }).catch(() => {})
    }
  }
  const endedAt = new Date().toISOString()
  store.dispatches.finish(id, {
    status: 'interrupted',
    exitCode: null,
    error,
    effective,
    endedAt,
    lastEventHash,
  })
}

async function provenBy(path: string, contract: Contract): Promise<SandboxEffective> {
  const seen = new Observations(contract)
  const { signal } = new AbortController()
  for await (const { event } of readEvents(path, { after: 0, follow: false, signal })) seen.observe(event)
  return seen.effective()
}
