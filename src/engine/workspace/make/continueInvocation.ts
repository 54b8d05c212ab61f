import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import type { RootModes } from '../../../shared/spec.ts'
import type { InvocationMeta } from '../../base/invocation.ts'
import type { Layout } from '../../base/paths.ts'
import type { Workspace } from '../../base/workspace.ts'
import { enterInvocation } from './enter.ts'
import {
  ensureInvocationDir,
  readInvocationMeta,
  writeInvocationMeta,
  secondsIso,
} from '../find/invocation.ts'
import { removeTree } from '../end/removeTree.ts'
import { reportToLog, Rollback } from './rollback.ts'

export type ContinueOptions = Pick<InvocationMeta, 'runner' | 'mode'> & {
  readonly id: DispatchId
  readonly continues: DispatchId
  readonly name: string | null
  readonly modes?: RootModes | undefined
}

/**
 * One more turn in a sandbox that exists: a record of its own for the dispatch, the same folders for the agent.
 * The record owns no sandbox, so it counts as over from the start; what becomes of the work is said by the first.
 */
export async function continueInvocation(
  layout: Layout,
  repoId: RepoId,
  { id, continues, name, runner, mode, modes }: ContinueOptions,
): Promise<Workspace> {
  const workspace = await enterInvocation(layout, repoId, continues, { modes })
  const first = await readInvocationMeta(layout, repoId, continues)
  await using rollback = new Rollback(reportToLog(layout))
  await ensureInvocationDir(layout, repoId, id)
  rollback.add('invocation folder', () => removeTree(layout.invocation(repoId, id)))
  await writeInvocationMeta(layout, repoId, {
    ...first,
    invocation_id: id,
    invocation_name: name ?? '',
    runner,
    mode,
    status: 'starting',
    started_at: secondsIso(Date.now()),
    ended_at: null,
    notes: [],
    outcome: 'disposed',
    continues,
  })
  rollback.commit()
  return workspace
}
