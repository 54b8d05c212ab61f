import { realpath } from 'node:fs/promises'
import { homedir, userInfo } from 'node:os'

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

/** The same with links followed, where they are there. */
export async function realHomes(homes = ownHomes()): Promise<readonly string[]> {
  return Promise.all(homes.map((home) => realpath(home).catch(() => home)))
}
