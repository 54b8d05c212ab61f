import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { isDispatchId, type DispatchId } from '../../../shared/ids.ts'
import type { Layout } from '../../base/paths.ts'
import { createFlags, ensureFolder, errorCode, syncFolder, type Disk } from '../disk.ts'

type Place = { readonly layout: Layout; readonly disk: Disk }

/**
 * Which changesets may have a journal that is not at its end: an empty file each, there before the journal and gone
 * after it. A start looks into this one folder instead of into every changeset there ever was.
 */
const folderOf = ({ layout }: Place): string => join(layout.dataDir, 'applying')

export async function noteApplying(place: Place, id: DispatchId): Promise<void> {
  const { disk } = place
  const folder = folderOf(place)
  await keepApplying(place)
  try {
    await disk.close(await disk.open(join(folder, id), createFlags, 0o600))
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return
    throw error
  }
  await syncFolder(disk, folder)
}

/** One too many costs a look at the next start, and no more. */
export async function forgetApplying(place: Place, id: DispatchId): Promise<void> {
  await place.disk.unlink(join(folderOf(place), id)).catch(() => {})
}

/** Null where nobody has kept it yet: then each changeset has to be looked at, once. */
export function listApplying(place: Place): readonly DispatchId[] | null {
  try {
    // Our own small folder, at once: an agent waits for this.
    return readdirSync(folderOf(place)).filter(isDispatchId)
  } catch {
    return null
  }
}

/** Every changeset has been looked at: from now on the folder tells. */
export async function keepApplying(place: Place): Promise<void> {
  await ensureFolder(place.disk, folderOf(place))
}
