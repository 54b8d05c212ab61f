import { lstatSync, readFileSync } from 'node:fs'
import { shownPlaces, isInside, type ViewStep } from './view.ts'
import type { SandboxPlan } from './plan.ts'

/** The paths that sockets were bound to, as `/proc/net/unix` has them. */
export function boundPaths(table: string): readonly string[] {
  const paths = table.split('\n').flatMap((line) => /^(?:\S+\s+){6}\d+ (\/.*)$/.exec(line)?.[1] ?? [])
  return [...new Set(paths)]
}

/**
 * The plan with the sockets covered that lie in folders of the system which no overlay can be laid over: a read-only
 * mount does not stop who connects, and a daemon listens there for every user (Nix). Read from the kernel's list, which is quick where
 * a search through /usr is not.
 */
export function withoutSockets(plan: SandboxPlan): SandboxPlan {
  if (plan.confinement !== 'bubblewrap') return plan
  const shown = shownPlaces(plan.request)
  const folders = plan.view.flatMap((step) =>
    step.kind === 'read-only' && step.source === step.target ? [step.target] : [],
  )
  const masks = plan.view.flatMap((step) =>
    step.kind === 'hidden' || step.kind === 'private' ? [step.target] : [],
  )
  const reachable = boundPaths(readTable()).filter(
    (path) =>
      folders.some((folder) => isInside(path, folder)) &&
      ![...shown, ...masks].some((place) => isInside(path, place)),
  )
  const steps = reachable
    .filter((target) => isSocket(target))
    .map((target): ViewStep => ({ kind: 'hidden', of: 'file', target, why: 'a socket of the host' }))
  if (steps.length === 0) return plan
  const seal = plan.view.findIndex((step) => step.kind === 'sealed' && step.target === '/')
  return { ...plan, view: [...plan.view.slice(0, seal), ...steps, ...plan.view.slice(seal)] }
}

// At once: this is memory of the kernel, and an agent waits for it.
function readTable(): string {
  try {
    return readFileSync('/proc/net/unix', 'utf8')
  } catch {
    return ''
  }
}

function isSocket(path: string): boolean {
  try {
    return lstatSync(path).isSocket()
  } catch {
    return false
  }
}
