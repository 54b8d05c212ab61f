import { isTerminal } from '../../../shared/dispatch.ts'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import type { Orphan } from '../../../shared/invocation.ts'
import { findOrphans, readInvocationMeta, scanInvocations } from '../../workspace/index.ts'
import type { Parts } from '../parts.ts'

/** Whoever makes a sandbox has written its record by then. */
const settledMs = 5_000
/** A row comes before its folder; on a busy machine the folder may take this long. */
const bornMs = 30_000

/**
 * Brings the database's copy in line with the records on disk, which are the truth, and says what belongs to
 * nothing. It looks only: what it finds may be somebody's work.
 */
export async function reconcile(
  parts: Parts,
  options: { readonly patient?: boolean } = {},
): Promise<Orphan[]> {
  const { layout, store } = parts
  const entries = await scanInvocations(layout)
  const records = entries.flatMap(({ repo_id, meta }) =>
    meta === null ? [] : [{ repoId: repo_id as RepoId, meta }],
  )
  store.invocations.reflect(records)
  const seen = store.invocations
    .list()
    .filter(({ meta }) => meta === null || meta.outcome === null)
    .map(({ id, repoId }) => ({ id, place: layout.invocation(repoId, id) }))
  const rows = store.dispatches.unfinished()
  return findOrphans(
    layout,
    rows.map(({ id, status, created_at: created }) => ({
      id,
      isLive: !isTerminal(status) && Date.now() - Date.parse(created) > bornMs,
    })),
    {
      seen,
      settledMs: options.patient === true ? settledMs : 0,
      isKnown: (id) => store.dispatches.find(id) !== undefined,
    },
  )
}

/** Copies one record into the database after it changed. A copy that fails is made at the next start. */
export async function mirror(
  { layout, store }: Pick<Parts, 'layout' | 'store'>,
  repoId: RepoId,
  id: DispatchId,
): Promise<void> {
  try {
    store.invocations.reflect([{ repoId, meta: await readInvocationMeta(layout, repoId, id) }])
  } catch {
    // The record on disk stands, and whoever reads it next says what is wrong with it.
  }
}
