import { readFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import type { EscapeCase } from '../case.ts'
import { staying } from '../staying.ts'
import { daemon, outlivings } from './outliving.ts'

// Signals that came to the supervisor, which we are; null where nobody counts them yet.
let received: number | null = null

const own = 'a process namespace of its own: host processes have no number inside'

export const processes: readonly EscapeCase[] = [
  {
    id: 'signal-host',
    group: 'Processes',
    attack: 'kills a process of the host',
    guard: own,
    claim: 'blocked',
    stage: async (world) => {
      const bystander = await world.bystander()
      return {
        probe: `kill -9 ${bystander.pid}; sleep 0.1`,
        escaped: () => bystander.signalCode !== null,
      }
    },
  },
  {
    id: 'signal-supervisor',
    group: 'Processes',
    attack: 'signals the process that started the sandbox and watches it',
    guard: own,
    claim: 'blocked',
    stage: async () => {
      if (received === null) process.on('SIGUSR2', () => void (received = (received ?? 0) + 1))
      received ??= 0
      const before = received
      return {
        probe: `kill -USR2 ${process.pid}; sleep 0.1`,
        escaped: () => (received ?? 0) > before,
      }
    },
  },
  {
    id: 'host-environ',
    group: 'Processes',
    attack: 'reads the environment of a host process',
    guard: own,
    claim: 'blocked',
    stage: async (world) => {
      const { pid } = await world.bystander({ TOKEN: world.secret })
      return {
        probe: `cat /proc/${pid}/environ >~/loot; cat /proc/[0-9]*/environ >>~/loot`,
        escaped: async () => (await world.loot()).includes(world.secret),
      }
    },
  },
  {
    id: 'host-root',
    group: 'Processes',
    attack: 'reaches host files through the root of a host process',
    guard: own,
    claim: 'blocked',
    stage: async (world) => {
      const { pid } = await world.bystander()
      const paths = [`/proc/${pid}/root${world.secretFile}`, `/proc/1/root${world.secretFile}`]
      return {
        probe: `cat ${paths.map((path) => `'${path}'`).join(' ')} /proc/[0-9]*/root'${world.secretFile}' >~/loot`,
        escaped: async () => (await world.loot()).includes(world.secret),
      }
    },
  },
  {
    id: 'host-cwd',
    group: 'Processes',
    attack: 'reaches host files through the working directory of a host process',
    guard: own,
    claim: 'blocked',
    stage: async (world) => {
      const { pid } = await world.bystander({}, ['env', '-C', dirname(world.secretFile)])
      const name = basename(world.secretFile)
      return {
        probe: `cat '/proc/${pid}/cwd/${name}' /proc/[0-9]*/cwd/'${name}' >~/loot`,
        escaped: async () => (await world.loot()).includes(world.secret),
      }
    },
  },
  {
    id: 'host-memory',
    group: 'Processes',
    attack: 'opens the memory of a host process',
    guard: own,
    claim: 'blocked',
    stage: async (world) => {
      const { pid } = await world.bystander()
      return {
        probe: staying(world, `open(F, "+<", "/proc/${pid}/mem"); open(G, "+<", "/proc/1/mem")`),
        live: true,
        tried: async () => (await world.processes()).length > 0,
        escaped: async () => (await world.descriptors()).some((link) => /^\/proc\/\d+\/mem$/.test(link)),
      }
    },
  },
  {
    id: 'outlive',
    group: 'Processes',
    attack: 'leaves a daemon behind: two forks, a session of its own, no terminal',
    guard: "everything lives in the holder's process namespace and dies with it",
    claim: 'blocked',
    stage: async (world) => ({
      probe: daemon(world),
      escaped: async () => (await world.processes()).length > 0,
    }),
  },
  ...outlivings,
  {
    id: 'environment-secret',
    group: 'Environment',
    attack: "reads a secret from the caller's environment, its own or its first process's",
    guard: 'the environment is made anew, and the chain above is started with an empty one',
    claim: 'blocked',
    stage: async (world) => {
      process.env['ORANGERY_ESCAPE_TOKEN'] = world.secret
      world.defer(() => void delete process.env['ORANGERY_ESCAPE_TOKEN'])
      return {
        probe: 'env >~/loot; cat /proc/self/environ /proc/1/environ /proc/[0-9]*/environ >>~/loot',
        escaped: async () => (await world.loot()).includes(world.secret),
      }
    },
  },
  {
    id: 'command-lines',
    group: 'Environment',
    attack: 'learns from command lines inside what the starter passed (paths, values)',
    guard: "bubblewrap's options go through a descriptor",
    claim: 'blocked',
    stage: async (world) => ({
      probe: 'cat /proc/[0-9]*/cmdline >~/loot',
      escaped: async () =>
        (await world.loot()).includes(`sh\0-c\0${world.ground.dataDir}`) || (await isTold(world)),
      request: { env: { AGENT_TOKEN: world.secret } },
      control: 'host',
    }),
  },
  {
    id: 'mount-paths',
    group: 'Environment',
    attack: "learns the data folder's path from its own mount table",
    guard: 'the path is visible, what lies there is not',
    claim: 'not claimed',
    stage: async (world) => ({
      probe: 'cat /proc/self/mountinfo >~/loot',
      escaped: async () => (await world.loot()).includes(world.ground.dataDir),
      control: 'sandbox',
    }),
  },
]

/** In the control any process's command line is readable; the runner itself has one with a known word. */
async function isTold(world: { loot(): Promise<string> }): Promise<boolean> {
  const own = (await readFile('/proc/self/cmdline', 'latin1')).slice(0, 40)
  return (await world.loot()).includes(own)
}
