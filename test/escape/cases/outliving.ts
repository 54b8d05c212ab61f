import { setTimeout as sleep } from 'node:timers/promises'
import type { EscapeCase, Running, Stage } from '../case.ts'
import { stays } from '../staying.ts'
import type { World } from '../world.ts'

/** Two forks, a session of its own, no terminal, deaf to what can be heard: nothing that one knows of it ends it. */
export const daemon = (world: World): string =>
  `perl -e 'use POSIX; fork and exit; setsid; fork and exit; close STDIN; close STDOUT; close STDERR; $SIG{$_} = "IGNORE" for qw(HUP TERM INT); ${stays}' ${world.mark}; settled $$`

const isThere = async (world: World) => (await world.processes()).length > 0

const timeoutS = 4
/** How much later than asked for a run may end on a busy machine: the daemon itself stays for a minute. */
const slackMs = 20_000
const patienceMs = 5000

/** On a busy machine the dead take their time; what was left running carelessly need not be waited for. */
async function settle(world: World, guarded: boolean): Promise<void> {
  if (!guarded) return void (await sleep(300))
  const end = performance.now() + patienceMs
  while (performance.now() < end && (await isThere(world))) await sleep(10)
}

type Cut = {
  readonly id: string
  readonly attack: string
  readonly guard: string
  readonly request?: Stage['request']
  readonly isSupervised?: true
  /** Ends who was started and nobody else, as is done where there is no sandbox to end. */
  readonly careless: (running: Running) => Promise<void> | void
  readonly ours: (running: Running) => Promise<void> | void
}

/** A daemon is there, by the host's process table; its run is ended from outside, and the table is read again. */
const outliving = ({ id, attack, guard, careless, ours, request = {}, ...rest }: Cut): EscapeCase => ({
  id,
  group: 'Processes',
  attack,
  guard,
  claim: 'blocked',
  stage: async (world) => {
    let hasOutlived = false
    return {
      ...rest,
      request,
      probe: daemon(world),
      // Longer than both, and shorter than the daemon stays.
      patienceMs: 90_000,
      tried: () => isThere(world),
      cutOff: async (running, guarded) => {
        await (guarded ? ours : careless)(running)
        await Promise.race([running.ended, sleep(slackMs, undefined, { ref: false })])
        await settle(world, guarded)
        hasOutlived = await isThere(world)
        // Looked at: what goes on in spite of its end must not keep us.
        await running.kill()
      },
      escaped: () => hasOutlived,
    }
  },
})

function killAlone({ pid }: Running): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It was gone already.
  }
}

export const outlivings: readonly EscapeCase[] = [
  outliving({
    id: 'outlive-kill',
    attack: 'leaves a daemon behind that goes on when the run is killed',
    guard: 'a kill ends the holder, and with it its process namespace',
    careless: killAlone,
    ours: (running) => running.kill(),
  }),
  outliving({
    id: 'outlive-timeout',
    attack: 'leaves a daemon behind that goes on when the time of the run is over',
    guard: 'limit timeout_s: after SIGTERM the process namespace is ended',
    request: { limits: { timeout_s: timeoutS } },
    careless: async (running) => {
      await sleep(100)
      process.kill(running.pid, 'SIGTERM')
      await sleep(100)
      killAlone(running)
    },
    // It ends by itself, or not at all.
    ours: () => {},
  }),
  outliving({
    id: 'outlive-supervisor',
    attack: 'leaves a daemon behind that goes on when the supervisor is killed (kill -9)',
    guard: 'the holder dies with the supervisor, and with it its process namespace',
    isSupervised: true,
    careless: killAlone,
    ours: killAlone,
  }),
]
