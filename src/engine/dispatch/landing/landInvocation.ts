import { isTerminal } from '../../../shared/dispatch.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import type { InvocationMeta, LandResult } from '../../../shared/invocation.ts'
import { createRepoLock } from '../../base/lock.ts'
import {
  commitLanding,
  hasWork,
  integrationPlace,
  listCommits,
  loadWorkspace,
  ownStakes,
  refuseOwnWork,
  refuseWorktreesOf,
  resolveInvocation,
  retireLanded,
  stakesNotes,
  takeInAgain,
  type LandingKind,
} from '../../workspace/index.ts'
import { isNotCaptured } from '../record/lateCapture.ts'
import { missingCommits } from '../handlers/leftBehind.ts'
import type { Parts } from '../parts.ts'
import { mirror } from '../recover/reconcile.ts'
import { whileLanding } from './whileLanding.ts'

export type LandOptions = {
  readonly how: LandingKind
  readonly message?: string | undefined
  readonly all: boolean
  readonly include_ignored: boolean
  readonly revision?: string | undefined
}

export type FoundInvocation = {
  readonly id: DispatchId
  readonly repoId: RepoId
  readonly meta: InvocationMeta
}

/** An invocation that is whole, by its id or a unique prefix. */
export async function findInvocation(
  { layout }: Pick<Parts, 'layout'>,
  reference: string,
): Promise<FoundInvocation> {
  const entry = await resolveInvocation(layout, reference)
  if (entry.meta !== null && !entry.broken) {
    return { id: entry.meta.invocation_id, repoId: entry.repo_id as RepoId, meta: entry.meta }
  }
  throw new OrangeryError(
    'workspace.invocation_broken',
    `invocation ${entry.id}: ${entry.why ?? 'it is broken'}`,
    {
      kind: 'input',
      hint: '`orangery agent discard` puts what there is into the archive.',
    },
  )
}

/** Lands what was approved in the integration tree and on its branch; a sandbox that is done with goes. */
export async function landInvocation(
  parts: Parts,
  reference: string,
  options: LandOptions,
  by: string,
): Promise<LandResult> {
  const { layout, store } = parts
  const { how } = options
  await using _ending = await claimEnding(parts, (await findInvocation(parts, reference)).id)
  const { id, repoId, meta } = await findInvocation(parts, reference)
  if (meta.outcome !== null) throw over(meta)
  await integrationPlace(layout, meta, how)
  // The sandbox goes with the landing, and what cannot go is to be known before anything has landed.
  await refuseWorktreesOf(meta)
  if (store.changesets.find(id) === null) throw await withoutReview(parts, { id, repoId, meta })
  const told = { own: [] as string[], missing: [] as Awaited<ReturnType<typeof missingCommits>> }
  // Until the commit is there and the sandbox's branch gone: an agent that starts on files without them would see half
  // of the landing as long as it runs.
  const { applied, skipped, open, rest, landed } = await whileLanding(
    parts,
    id,
    () => landAndCommit(parts, { id, repoId, meta }, options, by),
    {
      finish: async ({ open: isOpen }) => {
        // Asked before the sandbox goes, whose record says what was refused.
        told.missing = await missingCommits(parts, id)
        if (isOpen) return
        told.own = stakesNotes(await ownStakes(meta)).map(
          (note) => `${note}: not landed, kept in the archive`,
        )
        await retireLanded(layout, repoId, id)
      },
    },
  )
  await mirror(parts, repoId, id)
  const notes = [
    ...(landed.notes ?? []),
    ...told.own,
    ...(how === 'merge' && !open ? told.missing.map(notMerged) : []),
    ...(!open && rest.ignored > 0 ? [ignoredStay(rest.ignored)] : []),
  ]
  return { id, landed: !open, ...landed, applied, skipped, ...(notes.length === 0 ? {} : { notes }) }
}

/** Held by whoever lands or discards a sandbox: given up while it lands, it would be told as not landed. */
export const claimEnding = ({ layout }: Pick<Parts, 'layout'>, id: DispatchId): Promise<AsyncDisposable> =>
  createRepoLock(layout).acquire(`ending-${id}`)

/** The approved files into the integration tree, and once nothing is open any more the commit that holds them. */
async function landAndCommit(
  parts: Parts,
  { id, repoId, meta }: FoundInvocation,
  options: LandOptions,
  by: string,
) {
  const { layout } = parts
  const { how, message } = options
  // Only while nobody else lands it: what another landing has just written would pass for the user's own.
  if (how !== 'apply') await refuseMixing(parts, id, meta)
  const { applied, skipped, isDone } = await landFiles(parts, id, options, by)
  // Also what an earlier landing left uncommitted because the rest was not decided yet.
  const parcels = await parts.changesets.landedPaths(id)
  const paths = parcels.map(({ path }) => path)
  const blobs = new Map(
    parcels.flatMap(({ path, blob }) => (blob === null ? [] : [[path.toString('latin1'), blob] as const])),
  )
  const hashes = new Map(parcels.map(({ path, after }) => [path.toString('latin1'), after] as const))
  const rest = isDone ? { open: 0, ignored: 0 } : await countRest(parts, id)
  const open = !isDone && (rest.open > 0 || paths.length === 0)
  if (open && rest.open + rest.ignored === 0) throw allRejected(id)
  const kind = open ? 'apply' : how
  const landed = await commitLanding({ layout, repoId, id, how: kind, paths, blobs, hashes, message })
  return { applied, skipped, open, rest, landed }
}

/**
 * What of a changeset nobody has decided. Files that git ignores land only when they are asked for, so they hold
 * nothing up: they stay in review, and in the archive with the sandbox.
 */
async function countRest(parts: Parts, id: DispatchId): Promise<{ open: number; ignored: number }> {
  const { files } = await parts.changesets.get(id)
  const left = files.filter(({ decision, refused }) => decision !== 'reject' && refused === null)
  const ignored = left.filter((file) => file.ignored && file.decision === null).length
  return { open: left.length - ignored, ignored }
}

const ignoredStay = (count: number): string =>
  `${count} of the files that git ignores, left out of this landing, stay in review and in the archive`

const notMerged = ({ path, why }: { readonly path: string; readonly why: string }): string =>
  `not merged: ${path}: ${why}; the archive has them`

/** A commit holds what was reviewed; the user's own changes in the same files are asked about before any write. */
async function refuseMixing(parts: Parts, id: DispatchId, meta: InvocationMeta): Promise<void> {
  const { files } = await parts.changesets.get(id)
  const changed = files
    .filter(({ decision, refused }) => decision !== 'reject' && refused === null)
    .flatMap(({ path, from_path }) => (from_path === undefined ? [path] : [path, from_path]))
  const { changesets, layout } = parts
  await refuseOwnWork(
    layout,
    meta,
    changed,
    await changesets.landedHashes(id),
    await changesets.undoneHashes(id),
  )
}

/** Lets the approved files of a changeset into the integration tree; what was applied before counts too. */
async function landFiles(parts: Parts, id: DispatchId, options: LandOptions, by: string) {
  try {
    const result = await parts.changesets.apply(id, options, by)
    return { ...result, isDone: result.state === 'applied' }
  } catch (error) {
    if (!(error instanceof OrangeryError) || error.code !== 'changeset.nothing_approved') throw error
    const hasLanded = (await parts.changesets.landedPaths(id)).length > 0
    const rest = await countRest(parts, id)
    if (hasLanded && rest.open === 0) return { applied: [], skipped: [], isDone: false }
    throw rest.open + rest.ignored === 0 ? allRejected(id) : nothingApproved(id, error)
  }
}

function allRejected(id: DispatchId): OrangeryError {
  return new OrangeryError('agent.all_rejected', `${id}: everything in it was rejected`, {
    kind: 'refused',
    hint: `End it with \`orangery agent discard ${id}\`, or approve something: \`orangery changeset decide ${id} --path PATH approve\`.`,
  })
}

function nothingApproved(id: DispatchId, { code, message }: OrangeryError): OrangeryError {
  return new OrangeryError(code, message, {
    kind: 'refused',
    hint: `Approve and land all of it with \`orangery agent land ${id} --all\`, or decide first: \`orangery changeset decide ${id} --path PATH approve\`.`,
  })
}

function over(meta: InvocationMeta): OrangeryError {
  return new OrangeryError(
    'workspace.invocation_over',
    `invocation ${meta.invocation_id}: it was ${meta.outcome} already`,
    { kind: 'input', hint: '`orangery agent restore` brings back what is in the archive.' },
  )
}

/** Why nothing lands that has no changeset: there is nothing, or nobody has seen it as one. */
async function withoutReview(
  { layout, store }: Parts,
  { id, repoId, meta }: FoundInvocation,
): Promise<OrangeryError> {
  const dispatch = store.dispatches.find(id)
  if (dispatch !== undefined && !isTerminal(dispatch.status))
    return new OrangeryError(
      'agent.still_running',
      `${id}: its agent still runs, and has changed nothing yet`,
      {
        kind: 'busy',
        hint: `Wait for it (orangery dispatch wait ${id}) or stop it (orangery dispatch kill ${id}).`,
      },
    )
  const isCaptured = dispatch !== undefined && !isNotCaptured(dispatch.error)
  const hasCommits = (await listCommits(layout, repoId, id, meta.base_commit)).length > 0
  const isUnseen = !isCaptured && (await hasWork(await loadWorkspace(layout, repoId, id)))
  // Commits alone would land, and the reviewed files stay behind with the sandbox.
  if (hasCommits || isUnseen)
    return new OrangeryError(
      'agent.no_changeset',
      `${id}: the database has no changeset of the work in this sandbox, so nobody can have reviewed it`,
      { kind: 'refused', hint: `Take it into review again: ${takeInAgain(id)}` },
    )
  const own = await ownStakes(meta)
  if (Object.values(own).some((each) => each.length > 0))
    return new OrangeryError(
      'agent.own_work_only',
      `${id}: no agent has changed anything here, and your own work does not land by itself (${stakesNotes(own).join('; ')})`,
      {
        kind: 'input',
        hint: `Commit what is not committed in ${meta.sandbox_path}, then merge ${meta.sandbox_branch ?? 'its branch'} in your integration worktree with git. \`orangery agent discard ${id}\` keeps it in the archive.`,
      },
    )
  return new OrangeryError('agent.nothing_to_land', `${id}: nothing was changed in this sandbox`, {
    kind: 'input',
    hint: `End it with: orangery agent discard ${id}`,
  })
}
