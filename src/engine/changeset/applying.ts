import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { isDispatchId, type DispatchId } from '../../shared/ids.ts'
import { createFlags, errorCode, syncFolder } from './disk.ts'
import type { ApplyContext } from './transaction.ts'

/**
 * Which changesets may have a journal that is not at its end: an empty file each, there before the journal and gone
 * after it. A start looks into this one folder instead of into every changeset there ever was.
 */
const folderOf = ({ layout }: ApplyContext): string => join(layout.dataDir, 'applying')

export async function noteApplying(context: ApplyContext, id: DispatchId): Promise<void> {
  const { disk } = context
  const folder = folderOf(context)
  await keepApplying(context)
  try {
    await disk.close(await disk.open(join(folder, id), createFlags, 0o600))
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return
    throw error
  }
  await syncFolder(disk, folder)
}

/** One too many costs a look at the next start, and no more. */
export async function forgetApplying(context: ApplyContext, id: DispatchId): Promise<void> {
  await context.disk.unlink(join(folderOf(context), id)).catch(() => {})
}

/** Null where nobody has kept it yet: then each changeset has to be looked at, once. */
export async function listApplying(context: ApplyContext): Promise<readonly DispatchId[] | null> {
  const names = await readdir(folderOf(context)).catch(() => null)
  return names?.filter(isDispatchId) ?? null
}

/** Every changeset has been looked at: from now on the folder tells. */
export async function keepApplying(context: ApplyContext): Promise<void> {
  await mkdir(folderOf(context), { recursive: true, mode: 0o700 })
}
