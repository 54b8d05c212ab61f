import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import type { Contract } from '../../base/contract.ts'
import {
  claimLanding,
  gitsBeside,
  touches,
  type CutOff,
  type Landing,
  type Project,
} from '../../workspace/index.ts'
import type { Parts } from '../parts.ts'
import { landingPatienceMs, landingPlaces } from './whileLanding.ts'

type Stations = Pick<Parts, 'layout' | 'store' | 'changesets'>

/** Who is at it already is waited for as long as for any landing of the same project. */
const othersMs = 30_000

/**
 * Brings landings that a crash cut off to their end, in folders that nobody works on meanwhile: an agent would see the
 * rest of it come. Where one does it is left to his supervisor.
 */
export function recoverLandings(parts: Stations, { patienceMs = othersMs } = {}): Promise<void> {
  return parts.changesets.recover(async (id) => {
    const deadline = performance.now() + patienceMs
    for (;;) {
      const claim = await claimAgain(parts, id)
      if (!(claim instanceof OrangeryError)) return claim
      if (claim.code === 'workspace.agent_running' || performance.now() > deadline) return null
      if (!(await isUnfinished(parts, id))) return null
    }
  })
}

/** For who starts on folders: what lies half done there comes to its end first, or he is refused. */
export function cutOffLandings(parts: Stations): CutOff {
  return async (isMine) => {
    for (const id of await parts.changesets.unfinished()) {
      const { paths, repositories = [] } = await placesOf(parts, id)
      if (await isMine([...paths, ...repositories])) return () => bringToEnd(parts, id, paths)
    }
    return null
  }
}

/** The same before there is a row. Whom it would have to wait for, he waits for when he starts. */
export async function refuseCutOff(
  parts: Stations,
  { strategy, roots }: Pick<Contract, 'strategy' | 'roots'>,
  project: Promise<Project>,
): Promise<void> {
  // It has a tree of its own, made of commits.
  if (strategy === 'worktree') return
  const find = cutOffLandings(parts)
  const isMine = async (places: readonly string[]) => {
    const beside = await project.then(gitsBeside).catch(() => [])
    return touches(places, [...roots, ...beside])
  }
  for (;;) {
    const end = await find(isMine)
    if (end === null || (await end()) !== null) return
  }
}

/** Gives what is in the way of it; throws where it stands still until a person has seen to it. */
async function bringToEnd(
  parts: Stations,
  id: DispatchId,
  folders: readonly string[],
): Promise<OrangeryError | null> {
  const claim = await claimAgain(parts, id)
  if (claim instanceof OrangeryError) return claim
  await using _claim = claim
  if (!(await isUnfinished(parts, id))) return null
  await parts.changesets.recoverOne(id).catch((error: unknown) => {
    throw standsStill(id, folders, error)
  })
  return null
}

const isUnfinished = async ({ changesets }: Stations, id: DispatchId): Promise<boolean> =>
  (await changesets.unfinished()).includes(id)

async function claimAgain(parts: Stations, id: DispatchId): Promise<AsyncDisposable | OrangeryError> {
  const landing = { id, ...(await placesOf(parts, id)) }
  return claimLanding(parts.layout, landing, { timeoutMs: landingPatienceMs }).catch((error: unknown) => {
    if (error instanceof OrangeryError && error.kind === 'busy') return error
    throw error
  })
}

async function placesOf(parts: Stations, id: DispatchId): Promise<Omit<Landing, 'id'>> {
  const hasRepository = parts.store.changesets.find(id)?.workspace.roots.some(({ role }) => role === 'git')
  const makesCommit = hasRepository === true && (await parts.changesets.endsInCommit(id))
  // What cannot be read may move refs as well.
  return landingPlaces(parts, id, makesCommit).catch(() => landingPlaces(parts, id, true))
}

function standsStill(id: DispatchId, folders: readonly string[], error: unknown): OrangeryError {
  const where = folders.join(', ')
  const isStopped = error instanceof OrangeryError && error.code === 'changeset.neither_old_nor_new'
  const path = isStopped ? String((error.details as { path?: unknown }).path) : null
  const why = error instanceof Error ? error.message : String(error)
  return new OrangeryError(
    'workspace.landing_cut_off',
    path === null
      ? `${where}: a landing of ${id} was cut off there and cannot be brought to its end: ${why}`
      : `${where}: a landing of ${id} was cut off there at ${path} and stands still`,
    {
      kind: 'busy',
      hint:
        path === null
          ? `Some files are new and some old. Mend that, then try again; \`orangery changeset show ${id}\` says more.`
          : `Some files are new and some old. Say first what becomes of ${path}: \`orangery changeset settle ${id} mine|theirs --path ${path}\`.`,
      details: { id },
      cause: error,
    },
  )
}
