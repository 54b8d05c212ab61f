import { join } from 'node:path'
import { boundaryLevels } from '../../shared/boundary.ts'
import type { EventBody } from '../../shared/events.ts'
import type { Workspace } from '../base/workspace.ts'
import { openDoor, type Door } from '../door/index.ts'
import { capabilitiesOf, type EffectiveConfig } from '../policy/index.ts'
import type { Job } from './job.ts'
import { version } from './version.ts'

export const doorFolder = (workspaceDir: string): string => join(workspaceDir, 'door')

/** What an agent in a sandbox can ask through. At level 0 nothing is in its way, so there is nothing to ask for. */
export async function doorFor(
  job: Pick<Job, 'contract'>,
  workspace: Workspace,
  config: EffectiveConfig,
  note: (event: EventBody) => void,
): Promise<Door | null> {
  if (job.contract.level === 0) return null
  try {
    const anyLevel = boundaryLevels.flatMap((each) => capabilitiesOf(each, config).commands.deny)
    return await openDoor(doorFolder(workspace.dir), { commands: anyLevel, version })
  } catch (error) {
    return shut(error, note)
  }
}

/** What the agent finds behind it, before its first instruction. */
export async function furnishDoor(
  door: Door | null,
  { contract }: Pick<Job, 'contract'>,
  config: EffectiveConfig,
  note: (event: EventBody) => void,
): Promise<void> {
  try {
    await door?.furnish()
    await door?.deny(capabilitiesOf(contract.boundary, config).commands.deny)
  } catch (error) {
    shut(error, note)
  }
}

/** An agent that cannot ask is no reason not to run it. */
function shut(error: unknown, note: (event: EventBody) => void): null {
  const why = error instanceof Error ? error.message : String(error)
  note({ type: 'Note', text: `the agent cannot ask for a wider boundary: ${why}` })
  return null
}
