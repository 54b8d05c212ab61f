import type { Workspace } from '../base/workspace.ts'
import { continueInvocation, enterInvocation, prepareWorkspace } from '../workspace/index.ts'
import type { Job } from './job.ts'
import type { Parts } from './parts.ts'

/** The workspace a job runs in: made for it, made before, or that of an earlier turn. */
export function workspaceFor(
  { layout }: Pick<Parts, 'layout'>,
  job: Job,
  isHeaded: boolean,
): Promise<Workspace> {
  const modes = job.contract.rootModes
  const { id, name, contract, project, driver, continues, trusted } = job
  const mode = isHeaded ? 'headed' : 'headless'
  const runner = job.card.id
  if (continues !== null)
    return continueInvocation(layout, project.repoId, { id, continues, name, runner, mode, modes })
  if (job.entersInvocation) return enterInvocation(layout, project.repoId, id, { modes, driver })
  const { strategy } = contract
  return prepareWorkspace({
    id,
    project,
    strategy,
    driver,
    modes,
    layout,
    name,
    runner,
    mode,
    trusted,
  })
}
