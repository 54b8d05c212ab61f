import type { HostFacts } from '../host/host.ts'
import type { SandboxPlan } from './plan.ts'
import { systemCandidates } from './systemView.ts'
import { unsearchedMount } from './view.ts'

const why = 'shown without a layer of ours, since something is mounted inside or the kernel refuses it'

/** What of the protection is less where folders of the system are bound as they are: that is never silent. */
function sayOf(folders: readonly string[]): readonly string[] {
  const others = folders.filter((path) => path !== '/etc')
  return [
    ...(others.length === 0
      ? []
      : [
          `${others.join(', ')}: ${why}: sockets of the host are covered there as the kernel lists them at the start, and named pipes are not`,
        ]),
    ...(others.length === folders.length
      ? []
      : [
          `/etc: ${why}: what other users may not read is covered file by file, and shows once it is replaced`,
        ]),
  ]
}

const sayOfMounts = (paths: readonly string[]): readonly string[] =>
  paths.length === 0 ? [] : [`${paths.join(', ')}: ${unsearchedMount}: covered as a whole`]

/** Of a host, before anything is asked of it. */
export function lesserOn({
  system,
  systemLayers,
  etcLayer,
  secretPaths,
}: Pick<HostFacts, 'system' | 'systemLayers' | 'etcLayer' | 'secretPaths'>): readonly string[] {
  const isLayered = (path: string) =>
    path === '/etc' ? etcLayer !== null : systemLayers.some((layer) => layer.path === path)
  const bare = system.flatMap(({ kind, path }) => (kind === 'folder' && !isLayered(path) ? [path] : []))
  const covered = secretPaths.flatMap(({ path, isMount }) => (isMount === true ? [path] : []))
  return [...sayOf(bare), ...sayOfMounts(covered)]
}

/** Of one sandbox. Whoever grants a folder grants what is in it. */
export function lesserView({ view, request }: Pick<SandboxPlan, 'view' | 'request'>): readonly string[] {
  const bare = view.flatMap((step) =>
    step.kind === 'read-only' && step.source === step.target ? [step.target] : [],
  )
  const covered = view.flatMap((step) =>
    step.kind === 'hidden' && step.why === unsearchedMount ? [step.target] : [],
  )
  const shown = bare.filter((path) => systemCandidates.includes(path) && !request.grants.includes(path))
  return [...sayOf(shown), ...sayOfMounts(covered)]
}
