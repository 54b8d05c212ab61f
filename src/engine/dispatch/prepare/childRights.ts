import { realpath } from 'node:fs/promises'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { boundaryRank } from '../../../shared/boundary.ts'
import { isTerminal } from '../../../shared/dispatch.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { someHostCovers } from '../../../shared/hosts.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import type { RootMode, RootModes } from '../../../shared/spec.ts'
import type { Contract, HeldProject } from '../../base/contract.ts'
import {
  contractHeld,
  currentBoundary,
  heldProjects,
  isTaken,
  opensGrantedOnly,
  type ConfigPlaces,
} from '../../policy/index.ts'
import { parentEnded } from '../../store/index.ts'
import { readContract } from './contractFile.ts'
import type { Parts } from '../parts.ts'

const startPatienceMs = 30_000

/** Whoever ended a parent ended what comes from it. The row's own transaction looks again. */
export function refuseEnded({ store }: Parts, parentId: DispatchId): void {
  const { status } = store.dispatches.get(parentId)
  if (isTerminal(status)) throw parentEnded(parentId, status)
}

/** What a parent has right now: its contract, and no more than it has been narrowed to since. */
export async function rightsOf(parts: Parts, parentId: DispatchId): Promise<Contract> {
  const written = await writtenContract(parts, parentId)
  const state = parts.store.boundaries.read(parentId)
  const contract = contractHeld(written, state)
  const now = parts.store.dispatches.get(parentId).boundary
  const held =
    now !== null && boundaryRank(now) < boundaryRank(contract.boundary)
      ? { ...contract, boundary: now }
      : contract
  const boundary = currentBoundary(state)
  const isLeft = (host: string) => !isTaken(boundary, host)
  // In a list a host that was taken is not there to be named; whoever starts is held from it in any case.
  const { mode, ...rest } = held.outputs
  const outputs = { ...rest, mode, allow: rest.allow.filter(isLeft), always: rest.always.filter(isLeft) }
  if (mode === 'none' || rest.openAlways === true || !opensGrantedOnly(state)) return { ...held, outputs }
  const left =
    mode === 'open' ? boundary.hosts : outputs.allow.filter((host) => someHostCovers(boundary.hosts, host))
  return { ...held, outputs: { ...outputs, mode: 'restricted', allow: left.filter(isLeft) } }
}

/**
 * What holds a parent besides its contract: what it has been held to itself, and the files of its projects, unless they
 * are the child's own. A repository that the agent makes below its root is a project by itself. (escape: lifted-narrowing)
 */
export async function projectsOf(parent: Contract, own: ConfigPlaces): Promise<readonly HeldProject[]> {
  const [around, mine] = await Promise.all([heldProjects({ ...own, roots: parent.roots }), heldProjects(own)])
  const isMine = ({ file }: HeldProject) => mine.some((known) => known.file === file)
  return [...(parent.projects ?? []), ...around.filter((project) => !isMine(project))]
}

/** A parent that is just starting has no contract on disk yet; whoever spawned it may go on at once. */
async function writtenContract(parts: Parts, parentId: DispatchId): Promise<Contract> {
  for (const deadline = Date.now() + startPatienceMs; ; await sleep(50)) {
    const { status } = parts.store.dispatches.get(parentId)
    try {
      return await readContract(parts, parentId)
    } catch (error) {
      if (status !== 'starting' || Date.now() >= deadline) throw error
    }
  }
}

/**
 * A child's roots lie inside its parent's on the disk, not only by name: a link in the project would lead the
 * child to folders its parent cannot see. And where the parent has files hidden from it, only its own roots will
 * do, because what is hidden is named from the root. What the parent may only read its child may only read.
 * (escape: child-root-link, child-root-hidden)
 */
export async function withinParent(
  parent: Contract,
  child: Contract,
  asked: RootModes | undefined,
): Promise<Contract> {
  const own = await Promise.all(
    parent.roots.map(async (root) => ({
      path: await real(root),
      mode: parent.rootModes?.[resolve(root)] ?? 'rw',
    })),
  )
  const modes: Record<string, RootMode> = { ...child.rootModes }
  for (const root of child.roots) {
    const path = await real(root)
    const around = own.find((each) => path === each.path || isBelow(path, each.path))
    const sees = around !== undefined && around.mode !== 'hidden'
    if (!sees || (path !== around.path && parent.hide.length > 0)) {
      throw refused(
        root,
        sees ? 'the parent does not see everything in it' : "outside the parent's roots",
        "Name the parent's own roots.",
      )
    }
    if (around.mode === 'rw') continue
    // Wished for in words, more than the parent has is refused; what nobody said is cut.
    const wish = Object.entries(asked ?? {}).find(([name]) => resolve(name) === resolve(root))
    if (wish?.[1] === 'rw') throw refused(root, 'the parent may only read it', 'Ask for ro.')
    modes[resolve(root)] ??= 'ro'
  }
  const around = rootsAround(parent, child)
  return {
    ...child,
    ...(Object.keys(modes).length === 0 ? {} : { rootModes: modes }),
    ...(around.length === 0 ? {} : { around }),
  }
}

const rootsAround = (parent: Contract, { roots }: Contract): readonly string[] =>
  [...new Set([...parent.roots, ...(parent.around ?? [])])].filter((root) => !roots.includes(root))

const isBelow = (path: string, folder: string) => path.startsWith(folder === '/' ? '/' : `${folder}/`)

const refused = (root: string, why: string, hint: string) =>
  new OrangeryError('policy.parent_root', `${root}: ${why}`, { kind: 'refused', hint })

/** What is not there is refused by preflight, with its reasons. */
const real = (path: string): Promise<string> => realpath(path).catch(() => path)
