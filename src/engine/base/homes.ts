import { lstatSync, realpathSync } from 'node:fs'
import { readFile, realpath } from 'node:fs/promises'
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

/** Of people, and not of services. */
const isOfSomebody = ([, , uid, , , home = '', shell = '']: readonly string[]) =>
  Number(uid) >= 1000 && Number(uid) < 60_000 && home.startsWith('/') && !/\/(?:nologin|false)$/.test(shell)

/** Whose files the user can read: root those of everybody, and `sudo` in one's own home makes it root's. */
export async function reachableHomes(uid = process.getuid?.()): Promise<readonly string[]> {
  const own = ownHomes()
  if (uid !== 0) return own
  const users = await readFile('/etc/passwd', 'utf8').catch(() => '')
  const fields = users.split('\n').map((line) => line.split(':'))
  return [...new Set([...own, ...fields.filter(isOfSomebody).map(([, , , , , home = '']) => home)])]
}

/** A path as a person writes it for whoever reads it: `~` is that one's home. */
export const fromHome = (path: string): string => path.replace(/^~(?=\/|$)/, () => homedir())

/** The same with links followed, where they are there. */
export async function realHomes(homes: readonly string[]): Promise<readonly string[]> {
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

/** Files with tokens and passwords, in folders that hold other things as well. */
const keyFileNames = [
  '.netrc',
  '.git-credentials',
  '.config/git/credentials',
  '.npmrc',
  '.yarnrc.yml',
  '.pypirc',
  '.cargo/credentials',
  '.cargo/credentials.toml',
  '.gem/credentials',
  '.m2/settings.xml',
  '.gradle/gradle.properties',
  '.config/containers/auth.json',
  '.terraform.d/credentials.tfrc.json',
  '.vault-token',
  '.pgpass',
  '.my.cnf',
]

/** One that is there; `real` is where it lies if a link stands in its place. */
export type KeyPlace = { readonly path: string; readonly real: string }

/** Where nobody works on a project. */
export const findKeyFolders = (homes: readonly string[]): readonly KeyPlace[] =>
  findKeys(homes, keyFolderNames)

/** Where nothing is shown but what somebody names. */
export const findKeyPlaces = (homes: readonly string[]): readonly KeyPlace[] =>
  findKeys(homes, [...keyFolderNames, ...keyFileNames])

/** At once: most of them are not there, and an agent waits for this. */
function findKeys(homes: readonly string[], names: readonly string[]): readonly KeyPlace[] {
  const paths = homes.flatMap((home) => names.map((name) => join(home, name)))
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
