import { z } from 'zod'
import type { Handlers } from '../../../shared/api.ts'
import { commitRequestSchema, type ApplyResult } from '../../../shared/changeset.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import type { LandResult } from '../../../shared/invocation.ts'
import type { Contract } from '../../base/contract.ts'
import { createRepoLock } from '../../base/lock.ts'
import { gitsBeside, landingStays, listRunningOn, type Project } from '../../workspace/index.ts'
import { landInvocation } from './landInvocation.ts'
import type { Parts } from '../parts.ts'
import { landingPlaces, whileLanding } from './whileLanding.ts'

const chosen = {
  all: z.boolean(),
  include_ignored: z.boolean(),
  /** What was reviewed when it was asked for: a changeset that moved on does not land. */
  revision: z.string().optional(),
}
const requestSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('apply'), ...chosen, commit: commitRequestSchema.optional() }),
  z.object({
    kind: z.literal('land'),
    ...chosen,
    how: z.enum(['merge', 'squash', 'apply']),
    message: z.string().optional(),
  }),
  z.object({ kind: z.literal('undo'), last: z.boolean().default(false) }),
])
export type LandingRequest = z.infer<typeof requestSchema>
type Result<K extends LandingRequest['kind']> = K extends 'land' ? LandResult : ApplyResult

async function carryOut(parts: Parts, id: DispatchId, request: LandingRequest, by: string) {
  const { changesets } = parts
  if (request.kind === 'land') return landInvocation(parts, id, request, by)
  if (request.kind === 'undo') return undoLanding(parts, id, request, by)
  const makesCommit = request.commit !== undefined
  return whileLanding(parts, id, () => changesets.apply(id, request, by), { makesCommit })
}

/** Takes the files of a landing back, and says what stays. */
export async function undoLanding(
  parts: Parts,
  id: DispatchId,
  which: { readonly last: boolean },
  by: string,
): Promise<ApplyResult> {
  const undone = await whileLanding(parts, id, () => parts.changesets.undo(id, by, which))
  const workspace = parts.store.changesets.find(id)?.workspace
  const still = async () => (await parts.changesets.landedPaths(id)).map(({ path }) => path)
  const stays = workspace === undefined ? [] : await landingStays(workspace, still).catch(() => [])
  const notes = [...(undone.notes ?? []), ...stays]
  return notes.length === 0 ? undone : { ...undone, notes }
}

/**
 * Lands at once, or where an agent is at work on the same folders: when it has ended. What waits is kept in the
 * database, so it outlives whoever asked, and lands what was reviewed or nothing.
 */
export async function landWhenIdle<K extends LandingRequest['kind']>(
  parts: Parts,
  id: DispatchId,
  request: LandingRequest & { kind: K },
  by: string,
): Promise<Result<K> | null> {
  try {
    return (await carryOut(parts, id, request, by)) as Result<K>
  } catch (error) {
    if (!isInTheWay(error)) throw error
  }
  const { store } = parts
  const asked: LandingRequest = request
  const reviewed = store.changesets.find(id)?.revision
  const kept = asked.kind === 'undo' ? asked : { ...asked, revision: asked.revision ?? reviewed }
  store.landings.add(id, kept, by, new Date().toISOString())
  // The agent may have ended between the two: nobody else would notice.
  await landWaiting(parts)
  return null
}

/** Carries out whatever waits and has its folders to itself now. Called wherever an agent may have ended. */
export async function landWaiting(parts: Parts): Promise<void> {
  for (const { id, problem } of parts.store.landings.list()) {
    if (problem === null) await landOne(parts, id)
  }
}

async function landOne(parts: Parts, id: DispatchId): Promise<void> {
  const { layout, store, changesets } = parts
  // The window, a supervisor that ends and a command line may all notice at once.
  await using turn = await createRepoLock(layout).tryAcquire(`waiting-${id}`)
  const waiting = turn === null ? null : store.landings.find(id)
  if (waiting === null || waiting.problem !== null) return
  try {
    await carryOut(parts, id, requestSchema.parse(waiting.request), waiting.by)
    store.landings.remove(id)
  } catch (error) {
    if (isInTheWay(error)) return
    // Whoever landed it was cut off before he could say so.
    if (error instanceof OrangeryError && error.code === 'workspace.invocation_over') {
      return void store.landings.remove(id)
    }
    const why = error instanceof Error ? error.message : String(error)
    const isUndo = requestSchema.safeParse(waiting.request).data?.kind === 'undo'
    const text = `it was to ${isUndo ? 'be taken back' : 'land'} when nobody worked on its folders: ${why}`
    await changesets.escalate(id, text, 'orangery').catch(() => {})
    // Last: who sees that it has stopped finds a person asked.
    store.landings.fail(id, why)
  }
}

const inTheWay: ReadonlySet<string> = new Set(['workspace.agent_running', 'workspace.landing'])
const isInTheWay = (error: unknown): boolean => error instanceof OrangeryError && inTheWay.has(error.code)

export async function waitsFor(parts: Parts, id: DispatchId): Promise<DispatchId[]> {
  const places = await waitingPlaces(parts, id)
  return (await listRunningOn(parts.layout, id, places)).map((running) => running.id)
}

/** Everything that a landing that waits would write. */
async function waitingPlaces(parts: Parts, id: DispatchId): Promise<readonly string[]> {
  const request = requestSchema.safeParse(parts.store.landings.find(id)?.request).data
  const makesCommit = request?.kind === 'apply' && request.commit !== undefined
  const { paths, repositories = [] } = await landingPlaces(parts, id, makesCommit)
  return [...paths, ...repositories]
}

/** What a dispatch on these folders makes wait longer; agents without a gap between them would hold it up for ever. */
export async function landingNotes(
  parts: Parts,
  { strategy, roots }: Pick<Contract, 'strategy' | 'roots'>,
  project: Promise<Project>,
): Promise<string[]> {
  // The others have a tree of their own and hold nobody up.
  if (strategy !== 'overlay' && strategy !== 'none') return []
  const waiting = parts.store.landings.list().filter(({ problem }) => problem === null)
  if (waiting.length === 0) return []
  const beside = await project.then(gitsBeside).catch(() => [])
  const seen = [...roots, ...beside]
  const held: DispatchId[] = []
  for (const { id } of waiting) {
    // One that nobody can read says so itself when it is to land.
    const places = await waitingPlaces(parts, id).catch(() => [])
    if (places.some((path) => seen.some((root) => isWithin(path, root) || isWithin(root, path))))
      held.push(id)
  }
  if (held.length === 0) return []
  const ids = held.join(', ')
  return [`${ids} waits to land until nobody works on these folders, and now for this one too`]
}

const isWithin = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`)

export function landingHandlers(
  parts: Parts,
  find: (reference: string) => DispatchId,
): Pick<Handlers, 'landing.list' | 'landing.cancel'> {
  const { store } = parts
  return {
    'landing.list': () =>
      Promise.all(
        store.landings.list().map(async ({ id, request, by, askedAt, problem }) => ({
          id,
          kind: requestSchema.safeParse(request).data?.kind ?? 'apply',
          by,
          asked_at: askedAt,
          waits_for: await waitsFor(parts, id),
          problem,
        })),
      ),
    'landing.cancel': async ({ id: reference }) => {
      const id = find(reference)
      if (store.landings.remove(id)) return { id }
      throw new OrangeryError('landing.none', `${id}: no landing of it waits`, {
        kind: 'not_found',
        hint: '`orangery changeset waiting` lists those that do.',
      })
    },
  }
}
