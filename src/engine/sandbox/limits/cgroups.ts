import { constants, existsSync, statSync } from 'node:fs'
import { access, mkdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { run } from '../../base/process.ts'

export const controllers = ['memory', 'cpu', 'pids'] as const
export type Controller = (typeof controllers)[number]

/**
 * How limits can be put on a whole sandbox here. `parents` are the folders under which a sandbox may make
 * its own group: one for each controller (v1), or the same for all (v2). `hands`: what the user's systemd was
 * handed to hand on.
 */
export type CgroupFacts = (
  | { readonly kind: 'systemd'; readonly hands: readonly Controller[] }
  | {
      readonly kind: 'v1' | 'v2'
      readonly parents: Readonly<Partial<Record<Controller, string>>>
      /** Version 1 counts swap only where the kernel was told to. */
      readonly countsSwap?: boolean
    }
  | { readonly kind: 'none'; readonly why: string }
) & {
  /** What to do, with the one command, for the controllers that are missing to be had; where there is such a one. */
  readonly more?: string | null
}

/** Of memory and swap together. */
export const swapLimit = 'memory.memsw.limit_in_bytes'

type Membership = { readonly controllers: readonly string[]; readonly path: string }

async function readMemberships(): Promise<readonly Membership[]> {
  const text = await readFile('/proc/self/cgroup', 'utf8').catch(() => '')
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [, names = '', ...path] = line.split(':')
      return { controllers: names === '' ? [] : names.split(','), path: path.join(':') }
    })
}

async function isWritable(path: string): Promise<boolean> {
  return access(path, constants.W_OK).then(
    () => true,
    () => false,
  )
}

const topGroup = '/sys/fs/cgroup'

/**
 * A v2 group may hand controllers to children only where its parent lets it and it holds no processes itself. A process is
 * in one of them only, so all are had from the same: the nearest of those that hand the most.
 */
export async function findUnifiedParent(
  own: string,
  top = topGroup,
): Promise<Readonly<Partial<Record<Controller, string>>>> {
  let found: Readonly<Partial<Record<Controller, string>>> = {}
  // Only the top of all may hold processes itself and have groups below.
  for (let folder = own === '/' ? top : dirname(join(top, own)); folder.startsWith(top);) {
    const has = await readControllers(join(folder, 'cgroup.subtree_control'))
    const isMore = has.length > Object.keys(found).length
    if (isMore && (await isWritable(folder)) && (await isWritable(join(folder, 'cgroup.procs')))) {
      found = Object.fromEntries(has.map((name) => [name, folder] as const))
    }
    folder = dirname(folder)
  }
  return found
}

async function readControllers(file: string): Promise<readonly Controller[]> {
  const names = (await readFile(file, 'utf8').catch(() => '')).split(/\s/)
  return controllers.filter((name) => names.includes(name))
}

/** The command that has the top hand on what is missing; null where it cannot, or is not ours to write. */
export async function handOn(missing: readonly Controller[], top = topGroup): Promise<string | null> {
  const [there, handed] = await Promise.all([
    readControllers(join(top, 'cgroup.controllers')),
    readControllers(join(top, 'cgroup.subtree_control')),
  ])
  const more = missing.filter((name) => there.includes(name) && !handed.includes(name))
  const file = join(top, 'cgroup.subtree_control')
  // The top of a namespace has a type, and may hand on nothing while it holds processes, which are not ours to move.
  if (more.length === 0 || existsSync(join(top, 'cgroup.type')) || !(await isWritable(file))) return null
  return `run: echo '${more.map((name) => `+${name}`).join(' ')}' >${file}`
}

const delegate =
  "run this, then log in anew: printf '[Service]\\nDelegate=cpu cpuset io memory pids\\n' | sudo install -D -m 644 /dev/stdin /etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload"

/** What makes a user's systemd hold limits: that it runs, or that it is handed the controllers there are. */
async function moreOfSystemd(missing: readonly Controller[]): Promise<string | null> {
  const there = await readControllers(join(topGroup, 'cgroup.controllers'))
  if (!missing.some((name) => there.includes(name)) || !existsSync('/run/systemd/system')) return null
  const folder = runtimeFolder()
  if (folder !== null && existsSync(join(folder, 'systemd', 'private'))) return delegate
  const uid = process.getuid?.() ?? 0
  return uid === 0 ? null : `run: sudo loginctl enable-linger ${uid}`
}

const ownGroup =
  'while IFS=: read -r number names path; do [ "$number" != 0 ] || group=$path; done </proc/self/cgroup'
// On a busy machine a scope takes seconds; where there is no systemd to ask, the answer comes at once.
const scopePatienceMs = 15_000
const triedProperties = ['MemoryMax=1G', 'CPUQuota=100%', 'TasksMax=100']

/**
 * The controllers a scope really gets. Systemd takes every property and says nothing of one it cannot keep: a user's has
 * processors to hand on only since version 252, and not in every distribution; with control groups of version 1 nothing.
 */
async function tryScope(systemdRun: string): Promise<readonly Controller[]> {
  const properties = triedProperties.flatMap((property) => ['-p', property])
  const script = `${ownGroup}; cat "/sys/fs/cgroup$group/cgroup.controllers"`
  const args = ['--user', '--scope', '--quiet', '--collect', ...properties, '--', 'sh', '-c', script]
  const tried = await run(systemdRun, args, { env: systemdEnvironment(), timeoutMs: scopePatienceMs }).catch(
    () => null,
  )
  if (tried?.code !== 0) return []
  const handed = tried.stdout.toString().split(/\s/)
  return controllers.filter((name) => handed.includes(name))
}

/** The folder of the one group of version 2 that a process is in. */
export function unifiedGroupOf(cgroup: string): string | null {
  const line = cgroup.split('\n').find((candidate) => candidate.startsWith('0::'))
  return line === undefined ? null : join('/sys/fs/cgroup', line.slice('0::'.length))
}

export async function detectCgroups(systemdRun: string | null): Promise<CgroupFacts> {
  const facts = await findCgroups(systemdRun)
  const had = facts.kind === 'systemd' ? facts.hands : facts.kind === 'none' ? [] : Object.keys(facts.parents)
  const missing = controllers.filter((name) => !had.includes(name))
  // Asked without it, nobody reads what would help.
  if (missing.length === 0 || systemdRun === null) return facts
  const handed = facts.kind === 'systemd' ? null : await handOn(missing)
  return { ...facts, more: handed ?? (await moreOfSystemd(missing)) }
}

async function findCgroups(systemdRun: string | null): Promise<CgroupFacts> {
  if (systemdRun !== null && runtimeFolder() !== null) {
    const hands = await tryScope(systemdRun)
    if (hands.length > 0) return { kind: 'systemd', hands }
  }
  const memberships = await readMemberships()
  const parents: Partial<Record<Controller, string>> = {}
  for (const name of controllers) {
    const own = memberships.find((membership) => membership.controllers.includes(name))
    if (own === undefined) continue
    for (const mountName of [own.controllers.join(','), name]) {
      // A group that is not ours to see (another cgroup namespace) falls back to the top we do see.
      for (const path of [own.path, '/']) {
        const folder = join('/sys/fs/cgroup', mountName, path)
        if (parents[name] === undefined && (await isWritable(folder))) parents[name] = folder
      }
    }
  }
  if (Object.keys(parents).length > 0) {
    const { memory } = parents
    return { kind: 'v1', parents, countsSwap: memory !== undefined && existsSync(join(memory, swapLimit)) }
  }
  const unified = memberships.find((membership) => membership.controllers.length === 0)
  if (unified !== undefined) {
    const found = await findUnifiedParent(unified.path)
    if (Object.keys(found).length > 0) return { kind: 'v2', parents: found }
  }
  return {
    kind: 'none',
    why: 'there is neither a systemd user session nor a control group we may write',
  }
}

/** Where the user's systemd is reached. Who came by sudo or cron was not told, or has kept another user's. */
export function runtimeFolder(
  environment: NodeJS.ProcessEnv = process.env,
  top = '/run/user',
): string | null {
  const uid = process.getuid?.() ?? 0
  const isOurs = (path: string) => statSync(path, { throwIfNoEntry: false })?.uid === uid
  const told = environment['XDG_RUNTIME_DIR']
  const usual = join(top, String(uid))
  try {
    if (told !== undefined && isOurs(told)) return told
    return isOurs(join(usual, 'systemd', 'private')) ? usual : null
  } catch {
    return null
  }
}

export function systemdEnvironment(): Readonly<Record<string, string>> {
  const names = ['DBUS_SESSION_BUS_ADDRESS', 'PATH']
  const folder = runtimeFolder()
  const inherited = names.flatMap((name) =>
    process.env[name] === undefined ? [] : [[name, process.env[name]]],
  )
  return { ...Object.fromEntries(inherited), ...(folder === null ? {} : { XDG_RUNTIME_DIR: folder }) }
}

/** What to write where, to make the groups of one sandbox. */
export type CgroupPlan = {
  readonly kind: 'v1' | 'v2'
  readonly folders: readonly string[]
  readonly settings: readonly { readonly file: string; readonly value: string }[]
}

export type CgroupUse = { readonly cpuMs: number | null; readonly peakMb: number | null }

export type CgroupReader = {
  /** How often each limit was run into so far. */
  readEvents(): Promise<{ readonly memory: number; readonly pids: number }>
  readUse(): Promise<CgroupUse>
}

export type Cgroup = AsyncDisposable &
  CgroupReader & {
    /** Files the sandbox's first process writes itself into. */
    readonly joinFiles: readonly string[]
  }

async function readNumber(file: string, key?: string): Promise<number | null> {
  const text = await readFile(file, 'utf8').catch(() => null)
  if (text === null) return null
  if (key === undefined) return Number(text.trim())
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${key} `))
  return line === undefined ? null : Number(line.slice(key.length + 1))
}

async function firstNumber(
  attempts: readonly (readonly [file: string, key: string | undefined])[],
): Promise<number | null> {
  for (const [file, key] of attempts) {
    const value = await readNumber(file, key)
    if (value !== null && !Number.isNaN(value)) return value
  }
  return null
}

/** Removes what a sandbox whose supervisor was killed left of its control groups. */
export async function sweepCgroups(id: string): Promise<void> {
  const facts = await detectCgroups(null)
  if (facts.kind === 'none' || facts.kind === 'systemd') return
  for (const parent of new Set(Object.values(facts.parents))) {
    await rmdir(join(parent, cgroupName(id))).catch(() => {})
  }
}

export const cgroupName = (id: string): string => `orangery-${id}`

export function readerOf(folders: readonly string[]): CgroupReader {
  const inEach = (name: string, key?: string) => folders.map((folder) => [join(folder, name), key] as const)
  return {
    async readEvents() {
      const memory = await firstNumber([
        ...inEach('memory.events', 'oom_kill'),
        ...inEach('memory.oom_control', 'oom_kill'),
      ])
      const pids = await firstNumber(inEach('pids.events', 'max'))
      return { memory: memory ?? 0, pids: pids ?? 0 }
    },
    async readUse() {
      const peak = await firstNumber([...inEach('memory.peak'), ...inEach('memory.max_usage_in_bytes')])
      const microseconds = await firstNumber(inEach('cpu.stat', 'usage_usec'))
      const nanoseconds = microseconds === null ? await firstNumber(inEach('cpuacct.usage')) : null
      const cpuMs = microseconds === null ? nanoseconds && nanoseconds / 1e6 : microseconds / 1000
      return {
        peakMb: peak === null ? null : Math.round(peak / 1024 / 1024),
        cpuMs: cpuMs === null ? null : Math.round(cpuMs),
      }
    },
  }
}

export async function makeCgroup(plan: CgroupPlan): Promise<Cgroup> {
  for (const folder of plan.folders) await mkdir(folder)
  try {
    for (const { file, value } of plan.settings) await writeFile(file, value)
  } catch (error) {
    for (const folder of plan.folders) await rmdir(folder).catch(() => {})
    throw error
  }
  return {
    ...readerOf(plan.folders),
    joinFiles: plan.folders.map((folder) => join(folder, 'cgroup.procs')),
    async [Symbol.asyncDispose]() {
      for (const folder of plan.folders) {
        // The last process may still be on its way out.
        for (let attempt = 0; attempt < 50; attempt++) {
          const gone = await rmdir(folder).then(
            () => true,
            (error: NodeJS.ErrnoException) => error.code !== 'EBUSY',
          )
          if (gone) break
          await new Promise((resolve) => setTimeout(resolve, 10))
        }
      }
    },
  }
}
