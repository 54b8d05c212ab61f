import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { EscapeCase } from '../case.ts'
import { otherUser, plantProgram, prepared } from '../prepared.ts'
import { hasComplained, isThere } from '../staying.ts'
import type { World } from '../world.ts'

const guard = 'no new privileges; mounts do not honour set-uid'

/** By the process table: whether a program of the probe runs as that user, who did not start it. */
async function runsAs(world: World, uid: number): Promise<boolean> {
  for (const pid of await world.processes()) {
    const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
    if (new RegExp(`^Uid:\\s*(?!${uid}\\s)\\d+\\s+${uid}\\s`, 'm').test(status)) return true
  }
  return false
}

export const setUid: readonly EscapeCase[] = [
  {
    id: 'set-uid-program',
    group: 'Kernel',
    attack: 'runs set-uid programs of the host to become root: su, passwd, and sudo where there is one',
    guard,
    claim: 'blocked',
    only: 'ordinary user',
    stage: async (world) => ({
      probe: `sudo=:; command -v sudo >/dev/null && sudo=sudo; su -c : root ${world.mark} </dev/zero & passwd </dev/zero & sleep $pause; (sleep 30 | su -s /bin/sh root -c : ${world.mark}) & (sleep 30 | $sudo -S -p '' true ${world.mark}) & sleep $pause`,
      live: true,
      escaped: () => runsAs(world, 0),
      tried: async () => (await isThere(world)) || (await hasComplained(world, 'su: ')),
    }),
  },
  {
    id: 'set-uid-granted',
    group: 'Kernel',
    attack: 'runs a set-uid program in a folder that its card grants, to become its owner',
    guard,
    claim: 'blocked',
    isPrepared: true,
    stage: async (world) => {
      const folder = prepared?.programs ?? join(world.outside, 'granted')
      const program = join(folder, 'reader')
      if (prepared === null) {
        await mkdir(folder)
        await plantProgram(folder)
      }
      return {
        // Under a name by which the oracle knows it.
        probe: `sleep 30 | bash -c 'exec -a su "$0" - ${world.mark}' '${program}' & sleep $pause`,
        live: true,
        request: { grants: [folder] },
        tried: async () => (await world.processes()).length > 0,
        escaped: () => runsAs(world, otherUser),
      }
    },
  },
]
