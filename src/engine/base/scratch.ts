import { access, constants, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Where to put what is needed for a moment. A TMPDIR that is not there, as a shell may have from a session that has
 * ended, must not stop a landing half-way.
 */
export async function scratchPlace(): Promise<string> {
  for (const folder of [tmpdir(), '/tmp', '/dev/shm']) {
    const isUsable = await access(folder, constants.W_OK | constants.X_OK).then(
      () => true,
      () => false,
    )
    if (isUsable) return folder
  }
  return tmpdir()
}

/** A new private folder there. */
export const makeScratch = async (prefix: string): Promise<string> =>
  mkdtemp(join(await scratchPlace(), prefix))
