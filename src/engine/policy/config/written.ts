import { join } from 'node:path'
import { userConfigName } from '../../../shared/config.ts'
import { isInside } from '../scope.ts'
import { readConfigText, sha256Of } from './read.ts'
import { readTrust, writeTrust } from './trust.ts'

/** Remembers what we wrote ourselves. The caller holds the lock. */
export async function noteWritten(userConfigDir: string, file: string, text: string): Promise<void> {
  const records = await readTrust(userConfigDir)
  await writeTrust(userConfigDir, { ...records, written: { ...records.written, [file]: sha256Of(text) } })
}

/** The user's config and those below the roots, as far as they are what we wrote last: nobody else changed them since. */
export async function asWeWrote(userConfigDir: string, roots: readonly string[]): Promise<readonly string[]> {
  const own = join(userConfigDir, userConfigName)
  const { written = {} } = await readTrust(userConfigDir)
  const files = Object.keys(written).filter(
    (file) => file === own || roots.some((root) => isInside(file, root)),
  )
  const texts = await Promise.all(
    files.map((file) => readConfigText(file, { follow: file === own }).catch(() => null)),
  )
  return files.filter((file, index) => texts[index]?.sha256 === written[file])
}
