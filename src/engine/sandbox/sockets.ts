import { lstat, readFile } from 'node:fs/promises'
import { shownPlaces, isInside, type ViewStep } from './view.ts'
import type { SandboxPlan } from './plan.ts'

/** The paths that sockets were bound to, as `/proc/net/unix` has them. */
export function boundPaths(table: string): readonly string[] {
  const paths = table.split('\n').flatMap((line) => /^(?:\S+\s+){6}\d+ (\/.*)$/.exec(line)?.[1] ?? [])
  return [...new Set(paths)]
}

/**
 * The plan with the sockets covered that lie in folders of the system: a read-only mount does not stop who
 * connects, and a daemon listens there for every user (Nix). Read from the kernel's list, which is quick where
 * a search through /usr is not.
 */
export async function withoutSockets(plan: SandboxPlan): Promise<SandboxPlan> {
  if (plan.confinement !== 'bubblewrap') return plan
  const shown = shownPlaces(plan.request)
  const folders = plan.view.flatMap((step) =>
    step.kind === 'covered' || (step.kind === 'read-only' && step.source === step.target)
      ? [step.target]
      : [],
  )
  const masks = plan.view.flatMap((step) =>
    step.kind === 'hidden' || step.kind === 'private' ? [step.target] : [],
  )
  const table = await readFile('/proc/net/unix', 'utf8').catch(() => '')
  const reachable = boundPaths(table).filter(
    (path) =>
      folders.some((folder) => isInside(path, folder)) &&
      ![...shown, ...masks].some((place) => isInside(path, place)),
  )
  const steps = await Promise.all(
    reachable.map(async (target): Promise<readonly ViewStep[]> => {
      const isThere = (await lstat(target).catch(() => null))?.isSocket() === true
      return isThere ? [{ kind: 'hidden', of: 'file', target, why: 'a socket of the host' }] : []
    }),
  )
  if (steps.flat().length === 0) return plan
  const seal = plan.view.findIndex((step) => step.kind === 'sealed' && step.target === '/')
  return { ...plan, view: [...plan.view.slice(0, seal), ...steps.flat(), ...plan.view.slice(seal)] }
}
