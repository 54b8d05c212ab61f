import { readlinkSync, realpathSync } from 'node:fs'
import type { ProbeCheck } from '../../shared/effective.ts'
import { readProcess } from './chain.ts'
import { gateQuestions } from './gate.ts'
import type { SandboxPlan } from './plan.ts'
import { unescapeMount } from './tree.ts'

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

// At level 0 the host's own symlinks are in the way, and a mount stands where they lead.
const placeOf = (plan: SandboxPlan, target: string) =>
  plan.confinement === 'holder' ? realpathSync(target) : target

/** What file system is mounted last on a path, as that process sees it. */
function mountTypeAt(pid: number, path: string): string {
  const line = readProcess(pid, 'mountinfo')
    .split('\n')
    .findLast((candidate) => unescapeMount(candidate.split(' ')[4] ?? '') === path)
  return line?.split(' - ')[1]?.split(' ')[0] ?? 'nothing'
}

/** What the kernel says of the gate's process, read from outside, where nothing inside can answer for it. */
export function judgeProcess(plan: SandboxPlan, pid: number): readonly ProbeCheck[] {
  const namespaces = plan.namespaces
    .flatMap((name) => namespaceFiles[name] ?? [])
    .map((file): ProbeCheck => {
      const [inside, ours] = [readNamespace(pid, file), readNamespace('self', file)]
      const actual = inside === null ? 'unknown' : inside === ours ? "the host's" : 'own'
      return equal(`namespace ${file}`, 'own', actual)
    })
  const mounts = plan.roots.map((root) =>
    equal(
      `workspace ${root.target}`,
      workspaceType[plan.workspaceBy],
      mountTypeAt(pid, placeOf(plan, root.target)),
    ),
  )
  if (plan.confinement === 'holder') return [...namespaces, ...mounts]
  if (plan.view.some((step) => step.kind === 'covered')) {
    mounts.push(equal('layer over /etc', 'overlay', mountTypeAt(pid, '/etc')))
  }
  const status = readProcess(pid, 'status')
  const interfaces = readProcess(pid, 'net/dev')
  const environ = readProcess(pid, 'environ')
  const lines = interfaces.split('\n').flatMap((line) => /^\s*(\S+):/.exec(line)?.[1] ?? [])
  const names = environ.split('\0').flatMap((pair) => (pair === '' ? [] : [pair.split('=')[0] ?? '']))
  const declaredNames = [...Object.keys(plan.environment), 'PWD'].sort()
  // A shell keeps these for itself; they say nothing about the host.
  const actualNames = [
    ...new Set([...names.filter((name) => name !== 'OLDPWD' && name !== '_'), 'PWD']),
  ].sort()
  return [
    ...namespaces,
    ...mounts,
    equal('capabilities', '0000000000000000', statusField(status, 'CapEff')),
    equal('capability bounding set', '0000000000000000', statusField(status, 'CapBnd')),
    equal('no new privileges', '1', statusField(status, 'NoNewPrivs')),
    equal('seccomp', '2', statusField(status, 'Seccomp')),
    equal('network interfaces', 'lo', lines.join(' ')),
    equal('environment', declaredNames.join(' '), actualNames.join(' ')),
  ]
}
