import type { Workspace } from '../../base/workspace.ts'
import {
  continueInvocation,
  enterInvocation,
  freezeRefs,
  giveIdentity,
  prepareWorkspace,
  type UserIdentity,
} from '../../workspace/index.ts'
import { cutOffLandings } from '../landing/cutOffLandings.ts'
import type { Job } from './job.ts'
import type { Parts } from '../parts.ts'

/** The workspace a job runs in: made for it, made before, or that of an earlier turn. */
export function workspaceFor(
  parts: Pick<Parts, 'layout' | 'store' | 'changesets'>,
  job: Job,
  isHeaded: boolean,
): Promise<Workspace> {
  const { layout } = parts
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
    cutOff: cutOffLandings(parts),
  })
}

/** The last before anything is mounted: from here on its refs stand still. Gives what is to be said of the start. */
export const settle = async (workspace: Workspace, { notes }: Job): Promise<string[]> => [
  ...notes,
  ...(await freezeRefs(workspace)),
]

/** Its user's name in the agent's home. At level 0 the home is the user's own. */
export async function introduce(
  home: string,
  { project, contract }: Job,
  user: UserIdentity | null,
): Promise<Readonly<Record<string, string>>> {
  if (contract.level === 0) return {}
  const [{ path, git }] = project.roots
  // In a plain folder, too: the agent may find a repository below it, or make one.
  return giveIdentity(home, path, user === null ? null : { user, commonDir: git?.commonDir ?? null })
}
