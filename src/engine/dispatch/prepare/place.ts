import { realpath } from 'node:fs/promises'
import { isAbsolute, resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { SpawnRequest } from '../../../shared/api.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import type { SandboxSpec, WorkspaceStrategy } from '../../../shared/spec.ts'
import type { InvocationMeta } from '../../base/invocation.ts'
import type { Workspace } from '../../base/workspace.ts'
import { isIncludeTrusted } from '../../policy/index.ts'
import {
  assertMarked,
  assertStartable,
  integrationTree,
  resolveInvocation,
  worktreeNotes,
} from '../../workspace/index.ts'
import type { Parts } from '../parts.ts'

/** Where a dispatch is to run: the folders that were named, or what a worktree or an invocation says. */
export type Place = {
  readonly roots: readonly string[]
  /** Null: as the contract says. */
  readonly strategy: WorkspaceStrategy | null
  /** A sandbox that exists already; the dispatch takes its id. */
  readonly invocation: InvocationMeta | null
  /** The user trusts the worktree's `.worktreeinclude`. */
  readonly trusted: boolean
  /** What of the user's work is not in there. */
  readonly notes: readonly string[]
}

export async function placeOf(
  parts: Parts,
  request: Pick<SpawnRequest, 'roots' | 'invocation' | 'worktree'>,
  spec: Pick<SandboxSpec, 'changeset'> | null,
): Promise<Place> {
  const { layout } = parts
  if (request.invocation !== undefined && request.worktree !== undefined) {
    throw new OrangeryError('spawn.two_places', 'spawn: both an invocation and a worktree were named', {
      kind: 'usage',
      hint: 'An invocation has its worktree already; name one of them.',
    })
  }
  const asked = spec?.changeset
  const named = request.invocation !== undefined || request.worktree !== undefined
  if (request.invocation !== undefined) {
    const invocation = await unusedInvocation(parts, request.invocation)
    if (asked !== undefined && asked !== invocation.strategy) throw contradiction(asked, invocation.strategy)
    return placeIn(invocation)
  }
  if (!named && asked !== 'worktree')
    return { roots: request.roots, strategy: null, invocation: null, trusted: false, notes: [] }
  if (asked !== undefined && asked !== 'worktree') throw contradiction(asked, 'worktree')
  // Without a name the folder itself must be an integration tree.
  const reference = request.worktree ?? request.roots[0] ?? ''
  const near = request.roots[0] !== undefined && isAbsolute(request.roots[0]) ? request.roots[0] : null
  const worktree = await integrationTree(layout, reference, near)
  await assertStartable(worktree)
  const trusted = await isIncludeTrusted(parts.configDir, worktree.repo_path, worktree.tree_path)
  const notes = await worktreeNotes(worktree)
  return { roots: [worktree.tree_path], strategy: 'worktree', invocation: null, trusted, notes }
}

/** Were one of both to win in silence, an agent would be let loose on a folder nobody meant. */
export async function refuseOtherRoots(
  roots: readonly string[],
  ofSpec: readonly string[] | undefined,
): Promise<void> {
  const real = (paths: readonly string[]) =>
    Promise.all(paths.map((path) => realpath(path).catch(() => resolve(path))))
  if (ofSpec === undefined || isDeepStrictEqual(await real(roots), await real(ofSpec))) return
  throw new OrangeryError(
    'spec.contradiction',
    `${roots.join(', ')}: the spec names other roots (${ofSpec.join(', ')})`,
    { kind: 'input', hint: 'Name the folders in one place.' },
  )
}

/** Where a sandbox that exists has its roots. */
export function placeIn(invocation: InvocationMeta): Place {
  const projects = invocation.roots.filter((root) => root.role === 'project')
  const roots = projects.map((root) => (invocation.strategy === 'worktree' ? root.path : root.target))
  return { roots, strategy: invocation.strategy, invocation, trusted: false, notes: invocation.notes }
}

async function unusedInvocation(parts: Parts, reference: string): Promise<InvocationMeta> {
  const entry = await resolveInvocation(parts.layout, reference)
  if (entry.meta === null || entry.broken || entry.meta.outcome !== null) {
    throw new OrangeryError(
      'spawn.invocation_unusable',
      `invocation ${entry.id}: ${entry.why ?? 'it is over'}`,
      {
        kind: 'input',
        hint: entry.broken
          ? 'Mend that, or make a new one with `orangery agent start`.'
          : 'Make a new one with `orangery agent start`.',
      },
    )
  }
  // A database that was lost has no dispatch of it either: the next one takes what is there into review.
  const isForgotten = parts.store.dispatches.find(entry.meta.invocation_id) === undefined
  if (entry.meta.status === 'starting' || isForgotten) {
    await assertMarked(entry.meta)
    return entry.meta
  }
  throw new OrangeryError(
    'spawn.invocation_used',
    `invocation ${entry.id}: something has run in it already`,
    {
      kind: 'busy',
      hint: 'A sandbox carries one dispatch, which has its id. Make a new one with `orangery agent start`.',
    },
  )
}

function contradiction(asked: string, is: string): OrangeryError {
  return new OrangeryError(
    'spawn.strategy',
    `spawn: changeset "${asked}" was asked for, and this is a ${is}`,
    {
      kind: 'input',
      hint: 'Leave the changeset out of the contract.',
    },
  )
}

/** A path of the user's files as the agent sees it; in a worktree sandbox the two differ. */
export function seenInside(workspace: Workspace, path: string): string {
  const visible = workspace.roots.some((root) => isAt(path, root.target))
  const root = workspace.roots.find((candidate) => isAt(path, candidate.path))
  return visible || root === undefined ? path : root.target + path.slice(root.path.length)
}

const isAt = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`)
