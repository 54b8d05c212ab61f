import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import type { Contract } from '../../base/contract.ts'
import { syncFile, writeFileAtomically } from '../../base/files.ts'
import type { Layout } from '../../base/paths.ts'
import type { Parts } from '../parts.ts'

const contractPath = (layout: Layout, repoId: RepoId, id: DispatchId) =>
  join(layout.invocation(repoId, id), 'contract.json')

/**
 * The contract a dispatch runs under, kept for its children (who get at most this) and for its next turn. Not waited
 * for to be on the disk: `syncContract` before anything runs.
 */
export function writeContract(
  layout: Layout,
  repoId: RepoId,
  id: DispatchId,
  contract: Contract,
): Promise<void> {
  return writeFileAtomically(
    contractPath(layout, repoId, id),
    JSON.stringify(contract, null, 2),
    0o600,
    'nothing',
  )
}

export const syncContract = (layout: Layout, repoId: RepoId, id: DispatchId): Promise<void> =>
  syncFile(contractPath(layout, repoId, id))

export async function readContract({ layout, store }: Parts, id: DispatchId): Promise<Contract> {
  const { repoId } = store.dispatches.get(id)
  try {
    if (repoId === null) throw new Error('it never started')
    return JSON.parse(await readFile(contractPath(layout, repoId, id), 'utf8')) as Contract
  } catch (error) {
    throw new OrangeryError('dispatch.no_contract', `dispatch ${id}: its contract cannot be read`, {
      kind: 'refused',
      hint: 'A child gets at most what its parent has; a parent whose rights are unknown can have none.',
      cause: error,
    })
  }
}
