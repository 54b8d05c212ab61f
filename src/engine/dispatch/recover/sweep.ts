import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isTerminal } from '../../../shared/dispatch.ts'
import { isDispatchId } from '../../../shared/ids.ts'
import { createRepoLock, sweepLocks } from '../../base/lock.ts'
import { sweepClaims } from '../../workspace/index.ts'
import { hostLockName } from '../supervise/hostSocket.ts'
import type { Parts } from '../parts.ts'
import { isAlive } from '../../base/processes.ts'
import { ownerOfScratch, sparePlaces } from '../../base/ownedScratch.ts'

/**
 * What a killed process could not take away any more, the next one that starts does, and a host that stays
 * does so every few seconds. Nothing of a living process is touched: each file names, or is guarded by, something
 * that dies with its owner.
 */
export async function sweep(parts: Parts): Promise<void> {
  await sweepClaims(parts.layout)
  await sweepLocks({ locks: join(parts.configDir, '.locks') })
  await sweepRuntime(parts)
}

async function sweepRuntime(parts: Parts): Promise<void> {
  const { runtime, layout } = parts
  const names = await readdir(runtime).catch((): string[] => [])
  const ofHost = names.filter((name) => name === 'host.sock' || name.startsWith('serve-'))
  if (ofHost.length > 0) {
    await using held = await createRepoLock(layout).tryAcquire(hostLockName)
    if (held !== null) await removeAll(runtime, ofHost)
  }
  const ofDispatches = names.filter((name) => {
    const id = name.replace(/\.(?:sock|egress)$/, '')
    if (id === name || !isDispatchId(id)) return false
    // One that has not ended is looked at by `recover`.
    const found = parts.store.dispatches.find(id)
    return found === undefined || isTerminal(found.status)
  })
  await removeAll(runtime, ofDispatches)
  for (const folder of [runtime, sparePlaces(layout)]) await sweepScratch(folder)
}

async function sweepScratch(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch((): string[] => [])) {
    const owner = ownerOfScratch(name)
    if (owner !== null && !(await isAlive(owner.pid, owner.ticks))) await removeAll(folder, [name])
  }
}

async function removeAll(folder: string, names: readonly string[]): Promise<void> {
  await Promise.all(names.map((name) => rm(join(folder, name), { recursive: true, force: true })))
}
