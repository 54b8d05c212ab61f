import { lstatSync, realpathSync } from 'node:fs'
import { realpath } from 'node:fs/promises'
import { homedir, userInfo } from 'node:os'
import { join } from 'node:path'

/** The user's home, by the environment and by the system, which need not know a user of ours. */
export function ownHomes(): readonly string[] {
  const asked = [homedir, () => userInfo().homedir].flatMap((ask) => {
    try {
      return [ask()]
    } catch {
      return []
    }
  })
  return [...new Set(asked)]
}

/** A path as a person writes it for whoever reads it: `~` is that one's home. */
export const fromHome = (path: string): string => path.replace(/^~(?=\/|$)/, () => homedir())

/** The same with links followed, where they are there. */
export async function realHomes(homes = ownHomes()): Promise<readonly string[]> {
  return Promise.all(homes.map((home) => realpath(home).catch(() => home)))
}

/** Folders of a home in which programs keep keys, tokens and passwords, and where nobody works on a project. */
const keyFolderNames = [
  '.ssh',
  '.gnupg',
  '.password-store',
  '.aws',
  '.azure',
  '.kube',
  '.docker',
  '.config/gh',
  '.config/glab-cli',
  '.config/hub',
  '.config/gcloud',
  '.config/doctl',
  '.config/op',
  '.config/rclone',
  '.config/sops',
  '.config/google-chrome',
  '.config/chromium',
  '.config/BraveSoftware',
  '.mozilla',
  '.thunderbird',
  '.local/share/keyrings',
  '.local/share/kwalletd',
  'Library/Keychains',
]

/** One that is there; `real` is where it lies if a link stands in its place. */
export type KeyFolder = { readonly path: string; readonly real: string }

/** At once: most of them are not there, and an agent waits for this. */
export function findKeyFolders(homes: readonly string[]): readonly KeyFolder[] {
  const paths = homes.flatMap((home) => keyFolderNames.map((name) => join(home, name)))
  return paths.flatMap((path) => {
    try {
      const isThere = lstatSync(path, { throwIfNoEntry: false }) !== undefined
      return isThere ? [{ path, real: realpathSync.native(path) }] : []
    } catch {
      // A link that leads nowhere, or a place that is closed to the user.
      return []
    }
  })
}
