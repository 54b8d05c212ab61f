import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { commonMounts, fstab, isPlainPath, isPlainRoot, overlayLine, overlayOptions } from './holder.ts'
import type { SandboxPlan } from '../plan/plan.ts'
import { unescapeMount } from '../bytes.ts'
import { isInside, type ViewStep } from '../plan/view.ts'

/**
 * A sandbox of nobody's that stands already. Bubblewrap takes every folder in which something of a dispatch may
 * have to appear from one that the holder shares: what the holder mounts there later appears inside.
 */
export type Stage = {
  /** What a sandbox like most on this host is, with the steps that depend on nobody's request. */
  readonly plan: SandboxPlan
  readonly view: readonly ViewStep[]
  readonly folder: string
  /** The host's path of the terminal the agent will have. */
  readonly terminal: string
}

/**
 * `root` becomes `/`; `parts` has the folders that are mounts of their own; `mask` is what hides a file; through
 * `bell`, a pipe, the holder tells who waits inside that all is mounted.
 */
export const placesOf = ({ folder }: Pick<Stage, 'folder'>) => ({
  root: join(folder, 'root'),
  parts: join(folder, 'parts'),
  mask: join(folder, 'mask'),
  bell: join(folder, 'bell'),
  table: join(folder, 'mounts'),
})

const dependsOnRequest = (step: ViewStep) =>
  step.kind === 'root' ||
  step.kind === 'writable' ||
  (step.kind === 'read-only' && step.source !== step.target)

export const planStage = (plan: SandboxPlan, folder: string, terminal: string): Stage => ({
  plan,
  view: plan.view.filter((step) => !dependsOnRequest(step)),
  folder,
  terminal,
})

type Part = Extract<ViewStep, { kind: 'read-only' | 'layered' | 'covered' | 'private' }>

const isPart = (step: ViewStep): step is Part =>
  (step.kind === 'read-only' ||
    step.kind === 'layered' ||
    step.kind === 'covered' ||
    step.kind === 'private') &&
  /^\/[^/]+$/.test(step.target)

/** What the holder mounts before there is a dispatch. */
export function stageTable(stage: Stage, owner: string): string {
  const { root, parts, mask } = placesOf(stage)
  const shared = 'mode=0755,size=16m,nosuid,nodev,shared'
  return fstab([
    `orangery-${owner}-root ${root} tmpfs ${shared} 0 0`,
    `orangery-${owner}-parts ${parts} tmpfs ${shared} 0 0`,
    `/dev/null ${mask} none bind,ro,nosuid,nodev,noexec 0 0`,
    ...stage.view.filter(isPart).map((step, index) => {
      const place = `${parts}${step.target}`
      const source = step.kind === 'layered' ? step.source : step.target
      if (step.kind !== 'private') return `${source} ${place} none rbind,X-mount.mkdir 0 0`
      const options = `mode=${step.mode},size=${step.bytes},nosuid,nodev,X-mount.mkdir`
      return `orangery-${owner}-${index} ${place} tmpfs ${options} 0 0`
    }),
  ])
}

/** What bubblewrap starts with: the same view, taken from what the holder shares. */
export function stagedPlan(stage: Stage): SandboxPlan {
  const { root, parts } = placesOf(stage)
  const { plan } = stage
  const view = stage.view.map((step): ViewStep => {
    if (!isPart(step)) return step
    const kind = step.kind === 'private' ? 'writable' : 'read-only'
    return { kind, source: `${parts}${step.target}`, target: step.target }
  })
  return {
    ...plan,
    view: [{ kind: 'writable', source: root, target: '/' }, ...view],
    environment: {},
    request: { ...plan.request, cwd: '/' },
  }
}

/** Null where this stage cannot become exactly the sandbox of that plan: then one is made from the beginning. */
export function stepsToAdd(
  stage: Stage,
  plan: SandboxPlan,
  terminal: string | null,
): readonly ViewStep[] | null {
  const { request, limits } = plan
  const isAlike =
    plan.confinement === 'bubblewrap' &&
    terminal === stage.terminal &&
    plan.workspaceBy === 'kernel' &&
    limits.scope === null &&
    limits.cgroup === null &&
    limits.affinity === null &&
    request.grants.length === 0 &&
    request.writableFiles.length === 0 &&
    (request.shown ?? []).length === 0 &&
    request.workspace.roots.every(({ mount, access }) => mount.kind === 'overlay' || access === 'hidden') &&
    plan.roots.every(isPlainRoot) &&
    isDeepStrictEqual(plan.seccomp, stage.plan.seccomp) &&
    isDeepStrictEqual(plan.identity, stage.plan.identity) &&
    commonMounts(plan).etcLayer !== null &&
    isDeepStrictEqual(commonMounts(plan), commonMounts(stage.plan))
  if (!isAlike) return null
  // An agent waits for this: texts are compared faster than values.
  const texts = new Set(stage.view.map((step) => JSON.stringify(step)))
  const known = plan.view.map((step) => texts.has(JSON.stringify(step)))
  if (known.filter(Boolean).length !== stage.view.length) return null
  const added = plan.view.filter((_, index) => known[index] !== true)
  const canBeAdded = (step: ViewStep, index: number) =>
    isMountable(step) &&
    // What comes later in a view lies over it; here it would lie under it.
    plan.view
      .slice(index + 1)
      .every(
        (later) => later.kind === 'sealed' || added.includes(later) || !isInside(later.target, step.target),
      )
  return plan.view.every((step, index) => known[index] === true || canBeAdded(step, index)) ? added : null
}

function isMountable(step: ViewStep): boolean {
  const kinds: readonly ViewStep['kind'][] = ['read-only', 'writable', 'root', 'hidden', 'private']
  return (
    kinds.includes(step.kind) &&
    isPlainPath(step.target) &&
    (!('source' in step) || isPlainPath(step.source)) &&
    !['/dev', '/proc'].some((folder) => isInside(step.target, folder))
  )
}

/** Where in the holder something is mounted that is to appear there inside. */
export function placeInStage(stage: Stage, target: string): string {
  const { root, parts } = placesOf(stage)
  const isBelow = stage.view.some((step) => isPart(step) && isInside(target, step.target))
  return `${isBelow ? parts : root}${target}`
}

/** Of the mount a path lies on, as the host has it: a bind may not have less of these. */
function keptFlags(mounts: string, path: string): readonly string[] {
  const points = mounts.split('\n').flatMap((line) => {
    const [, , , , point, options = ''] = line.split(' ')
    return point === undefined ? [] : [{ point: unescapeMount(point), options: options.split(',') }]
  })
  const around = points.filter(({ point }) => isInside(path, point))
  const longest = Math.max(...around.map(({ point }) => point.length))
  const options = around.findLast(({ point }) => point.length === longest)?.options ?? []
  return options.filter((option) => option === 'noexec')
}

/**
 * What the holder mounts for a dispatch. Flags do not travel to where a mount appears unless it has them when it
 * is made: so the source is bound on itself with its flags first, where only the holder sees it.
 */
export function attachTable(
  stage: Stage,
  plan: SandboxPlan,
  added: readonly ViewStep[],
  mounts: string,
): string {
  const { id } = plan.request
  const { mask } = placesOf(stage)
  const bind = (source: string, target: string, flags: readonly string[] | null): readonly string[] => [
    ...(flags === null
      ? []
      : [`${source} ${source} none ${['bind', 'nosuid', 'nodev', ...flags].join(',')} 0 0`]),
    `${source} ${placeInStage(stage, target)} none bind,X-mount.mkdir 0 0`,
  ]
  const mounted = new Set<number>()
  const lines = added.flatMap((step, index): readonly string[] => {
    const place = placeInStage(stage, step.target)
    switch (step.kind) {
      case 'read-only':
        return bind(step.source, step.target, ['ro', ...keptFlags(mounts, step.source)])
      case 'writable':
        return bind(step.source, step.target, keptFlags(mounts, step.source))
      case 'root': {
        const root = plan.roots.find(({ slot }) => slot === step.slot)
        if (root === undefined) return []
        // Every place of it has what the first one has, which is where the agent cannot move it: the holder remounts it
        // by that name. (escape: narrow-moved-root)
        const appear = bind(root.target, step.target, null)
        if (mounted.has(step.slot)) return appear
        mounted.add(step.slot)
        const access = step.access === 'ro' ? ',ro' : ''
        return [
          overlayLine(id, step.slot, root.target, `${overlayOptions(root)}${access},nosuid,nodev`),
          ...appear,
        ]
      }
      case 'hidden':
        if (step.of === 'file') return bind(mask, step.target, null)
        return [`orangery-${id}-mask-${index} ${place} tmpfs ro,mode=000,size=4096,nosuid,nodev 0 0`]
      case 'private':
        return [
          `orangery-${id}-private-${index} ${place} tmpfs mode=${step.mode},size=${step.bytes},nosuid,nodev,X-mount.mkdir 0 0`,
        ]
      default:
        return []
    }
  })
  return fstab(lines)
}
