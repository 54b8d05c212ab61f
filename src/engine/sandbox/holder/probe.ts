import { readFileSync, readlinkSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { ProbeCheck } from '../../../shared/effective.ts'
import { readProcess } from './chain.ts'
import { unifiedGroupOf } from '../limits/cgroups.ts'
import { gateQuestions } from './gate.ts'
import { pointOf } from './innerMounts.ts'
import type { SandboxPlan } from '../plan/plan.ts'
import { isInside } from '../plan/view.ts'
import { pathBytes, unescapeMount } from '../bytes.ts'

const say = (isTrue: boolean) => (isTrue ? 'yes' : 'no')

/** What the gate found by trying, question by question. */
export function judgeAnswers(plan: SandboxPlan, answers: string): readonly ProbeCheck[] {
  return gateQuestions(plan).map(({ name, expected }, index): ProbeCheck => {
    const letter = answers[index]
    const actual = letter === 'y' ? 'yes' : letter === 'n' ? 'no' : 'no answer'
    return { name, declared: say(expected), actual, ok: actual === say(expected) }
  })
}

function statusField(status: string, name: string): string {
  return new RegExp(`^${name}:\\s*(.*)$`, 'm').exec(status)?.[1] ?? 'unknown'
}

const namespaceFiles: Readonly<Record<string, string>> = {
  user: 'user',
  mount: 'mnt',
  pid: 'pid',
  network: 'net',
  ipc: 'ipc',
  uts: 'uts',
  cgroup: 'cgroup',
}

function equal(name: string, declared: string, actual: string): ProbeCheck {
  return { name, declared, actual, ok: declared === actual }
}

function readNamespace(who: number | 'self', file: string): string | null {
  try {
    return readlinkSync(`/proc/${who}/ns/${file}`)
  } catch {
    return null
  }
}

const workspaceType = { kernel: 'overlay', 'fuse-overlayfs': 'fuse.fuse-overlayfs' } as const

type Mount = {
  readonly device: string
  /** Where in its file system it begins. */
  readonly begins: string
  readonly point: string
  readonly options: readonly string[]
  readonly type: string
}

/** What that process sees mounted. */
function readMounts(pid: number): readonly Mount[] {
  const lines = readProcess(pid, 'mountinfo').split('\n')
  return lines.slice(0, -1).map((line) => {
    const [, , device = '', begins = '', point = '', options = ''] = line.split(' ')
    const type = line.split(' - ')[1]?.split(' ')[0] ?? ''
    return {
      device,
      begins: unescapeMount(begins),
      point: unescapeMount(point),
      options: options.split(','),
      type,
    }
  })
}

/** What file system is mounted last on a path. */
const typeAt = (mounts: readonly Mount[], path: string): string =>
  mounts.findLast(({ point }) => point === path)?.type ?? 'nothing'

// The nodes in /dev are judged by themselves: where we are not root they cannot be sealed, nor changed.
const isNode = (point: string) => point.startsWith('/dev/') && point !== '/dev/shm'

/** Where anything can be written at all, and whether a set-uid program would be one: no more than planned. */
function judgeMounts({ view }: SandboxPlan, mounts: readonly Mount[]): readonly ProbeCheck[] {
  const sealed = new Set(view.flatMap((step) => (step.kind === 'sealed' ? [step.target] : [])))
  const planned = view.flatMap((step) =>
    step.kind === 'private' || step.kind === 'writable' || (step.kind === 'root' && step.access === 'rw')
      ? [step.target]
      : [],
  )
  const list = (points: readonly string[]) =>
    [...new Set(points)]
      .filter((point) => !isNode(point) && !sealed.has(point))
      .sort()
      .join(' ')
  // What is mounted later on the same path covers what was there.
  const last = new Map(mounts.map((mount) => [mount.point, mount]))
  const writable = [...last.values()].filter(({ options }) => options.includes('rw'))
  const privileged = mounts.filter(({ options }) => !options.includes('nosuid'))
  const unplanned = unplannedMounts(view, mounts)
  return [
    equal('mounts beyond the plan', '', unplanned.join(' ')),
    equal('writable places', list(planned), list(writable.map(({ point }) => point))),
    equal('set-uid programs', '', privileged.map(({ point }) => point).join(' ')),
  ]
}

/**
 * That each folder that is a mount of its own is that folder of its root: what was looked at may have become a link before it
 * was mounted. (escape: phase-file-link)
 */
function judgePlaces({ places, view }: SandboxPlan, mounts: readonly Mount[]): readonly ProbeCheck[] {
  const at = (path: string) => mounts.findLast(({ point }) => point === path)
  return places.flatMap((place) => {
    if (place.kind === 'file' || place.target === place.root) return []
    const [root, mount] = [at(place.root), at(place.target)]
    const inside = place.target.slice(place.root.length)
    const begins = root === undefined || root.begins === '/' ? inside : root.begins + inside
    const isThere = view.some(({ target }) => target === place.target)
    const declared = isThere ? `${root?.device ?? ''} ${begins}` : 'nothing'
    return [
      equal(
        `folder ${place.target}`,
        declared,
        mount === undefined ? 'nothing' : `${mount.device} ${mount.begins}`,
      ),
    ]
  })
}

/**
 * That what stands at a root without a layer is that folder of the host: its name may have come to lead elsewhere since
 * it was looked at. (escape: swapped-root)
 */
function judgeRealFolders({ request }: SandboxPlan, mounts: readonly Mount[]): readonly ProbeCheck[] {
  const folders = request.workspace.roots.flatMap(({ mount, access, target }) =>
    mount.kind === 'bind' && access !== 'hidden' ? [{ source: mount.source, target }] : [],
  )
  if (folders.length === 0) return []
  const ofHost = readMounts(process.pid)
  const say = ({ device, begins }: Pick<Mount, 'device' | 'begins'>) => `${device} ${begins}`
  return folders.map(({ source, target }) => {
    const around = ofHost
      .filter(({ point }) => isInside(source, point))
      .reduce<Mount | undefined>((best, mount) => {
        return best !== undefined && best.point.length > mount.point.length ? best : mount
      }, undefined)
    const rest = around === undefined ? source : source.slice(around.point === '/' ? 0 : around.point.length)
    const begins = `${around === undefined || around.begins === '/' ? '' : around.begins}${rest}` || '/'
    const mount = mounts.findLast(({ point }) => point === target)
    const declared = say({ device: around?.device ?? '', begins })
    return equal(`folder ${target}`, declared, mount === undefined ? 'nothing' : say(mount))
  })
}

// Bubblewrap's own covers.
const coveredByBubblewrap = new Set(['/proc/sys', '/proc/sysrq-trigger', '/proc/irq', '/proc/bus'])

/** What is mounted that is no step of the view, nor part of a folder of the host that a step shows whole. */
function unplannedMounts(view: SandboxPlan['view'], mounts: readonly Mount[]): readonly string[] {
  const planned = new Map<string, number>()
  for (const { kind, target } of view) {
    if (kind === 'sealed' || kind === 'link') continue
    const point = pathBytes(target).toString()
    planned.set(point, (planned.get(point) ?? 0) + 1)
  }
  const beyond = mounts.flatMap(({ point }) => {
    const left = planned.get(point) ?? 0
    planned.set(point, left - 1)
    return left > 0 || point === '/' || isNode(point) || coveredByBubblewrap.has(point) ? [] : [point]
  })
  if (beyond.length === 0) return []
  // Also what the holder mounted, which sees a granted folder with it.
  const held = view.flatMap((step) => (step.kind === 'root' || step.kind === 'layered' ? [step.source] : []))
  const ofHost = new Set([...readMounts(process.pid).map(({ point }) => point), ...held, '/etc'])
  const isBelow = (point: string) =>
    view.some(
      (step) =>
        (step.kind === 'read-only' || step.kind === 'writable') &&
        point.startsWith(`${step.target}/`) &&
        ofHost.has(step.source + point.slice(step.target.length)),
    )
  return beyond.filter((point) => !isBelow(point))
}

function readLimit(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch {
    return 'unknown'
  }
}

/** The kernel counts memory in pages. */
const isHeld = (file: string, declared: string, actual: string) =>
  declared === actual ||
  (basename(file).startsWith('memory.') && Math.abs(Number(declared) - Number(actual)) < 65_536)

/** That the limits of the plan are put on this very process. The number of processes is set as the agent begins. */
function judgeLimits({ limits }: SandboxPlan, pid: number, status: string): readonly ProbeCheck[] {
  const { cgroup, scope, affinity } = limits
  const groups = (cgroup?.folders ?? []).map((folder) => {
    const isMember = readLimit(join(folder, 'cgroup.procs')).split('\n').includes(String(pid))
    return equal(`control group ${hierarchyOf(folder)}`, 'own', isMember ? 'own' : 'another')
  })
  const group = unifiedGroupOf(readProcess(pid, 'cgroup')) ?? ''
  const ofScope = Object.entries(scope?.settings ?? {}).map(([name, value]) => ({
    file: join(group, name),
    value,
  }))
  const settings = [...(cgroup?.settings ?? []), ...ofScope].map(({ file, value }): ProbeCheck => {
    const actual = readLimit(file)
    return { name: `limit ${basename(file)}`, declared: value, actual, ok: isHeld(file, value, actual) }
  })
  return [
    ...groups,
    ...settings,
    ...(affinity === null ? [] : [equal('processors', affinity, statusField(status, 'Cpus_allowed_list'))]),
  ]
}

/** Of version 1 the name of its controllers. */
const hierarchyOf = (folder: string): string =>
  /^\/sys\/fs\/cgroup\/([^/]+)\/./.exec(folder)?.[1] ?? basename(dirname(folder))

type Identity = { readonly uid: number; readonly gid: number }
const identityOf = ({ uid, gid }: Identity): string => `${uid}:${gid}`

/** Who it is to itself: the one user and group of its namespace. */
function readIdentity(pid: number): Identity {
  const first = (file: string) => Number(/\d+/.exec(readProcess(pid, file))?.[0] ?? Number.NaN)
  return { uid: first('uid_map'), gid: first('gid_map') }
}

/** As its own namespace numbers it: one that was begun outside has no number there. */
function judgeSession(status: string): string {
  const inside = statusField(status, 'NSsid').split(/\s+/).at(-1)
  return inside === '0' ? "the host's" : /^\d+$/.test(inside ?? '') ? 'own' : 'unknown'
}

/** What the kernel says of the gate's process, read from outside, where nothing inside can answer for it. */
export function judgeProcess(plan: SandboxPlan, pid: number): readonly ProbeCheck[] {
  const namespaces = plan.namespaces
    .flatMap((name) => namespaceFiles[name] ?? [])
    // A kernel without control groups has no namespace of them either.
    .filter((file) => file !== 'cgroup' || readNamespace('self', file) !== null)
    .map((file): ProbeCheck => {
      const [inside, ours] = [readNamespace(pid, file), readNamespace('self', file)]
      const actual = inside === null ? 'unknown' : inside === ours ? "the host's" : 'own'
      return equal(`namespace ${file}`, 'own', actual)
    })
  const mountsInside = readMounts(pid)
  const mounts = plan.roots.map((root) =>
    equal(
      `workspace ${root.target}`,
      workspaceType[plan.workspaceBy],
      typeAt(mountsInside, pointOf(plan, root.target)),
    ),
  )
  if (plan.confinement === 'holder') return [...namespaces, ...mounts]
  for (const { kind, target } of plan.view) {
    if (kind !== 'covered' && kind !== 'layered') continue
    // A folder that is closed to others is hidden whole, over its layer.
    const isHidden = plan.view.some(
      (step) => step.target === target && (step.kind === 'hidden' || step.kind === 'private'),
    )
    const declared = isHidden ? 'tmpfs' : 'overlay'
    mounts.push(equal(`layer over ${target}`, declared, typeAt(mountsInside, target)))
  }
  const status = readProcess(pid, 'status')
  const interfaces = readProcess(pid, 'net/dev')
  const environ = readProcess(pid, 'environ')
  const lines = interfaces.split('\n').flatMap((line) => /^\s*(\S+):/.exec(line)?.[1] ?? [])
  const names = environ.split('\0').flatMap((pair) => (pair === '' ? [] : [pair.split('=')[0] ?? '']))
  // What the agent is given comes last: until then there is nothing of it.
  const declaredNames = ['PWD']
  // A shell keeps these for itself; they say nothing about the host.
  const actualNames = [
    ...new Set([...names.filter((name) => name !== 'OLDPWD' && name !== '_'), 'PWD']),
  ].sort()
  return [
    ...namespaces,
    ...mounts,
    ...judgeMounts(plan, mountsInside),
    ...judgePlaces(plan, mountsInside),
    ...judgeRealFolders(plan, mountsInside),
    ...judgeLimits(plan, pid, status),
    equal('user and group', identityOf(plan.identity), identityOf(readIdentity(pid))),
    equal('capabilities', '0000000000000000', statusField(status, 'CapEff')),
    equal('permitted capabilities', '0000000000000000', statusField(status, 'CapPrm')),
    equal('capability bounding set', '0000000000000000', statusField(status, 'CapBnd')),
    equal('no new privileges', '1', statusField(status, 'NoNewPrivs')),
    equal('session', 'own', judgeSession(status)),
    equal('seccomp', '2', statusField(status, 'Seccomp')),
    equal('network interfaces', 'lo', lines.join(' ')),
    equal('environment at the gate', declaredNames.join(' '), actualNames.join(' ')),
  ]
}
