import { join } from 'node:path'
import { boundaryLevels } from '../../shared/boundary.ts'
import type { EventBody } from '../../shared/events.ts'
import type { Workspace } from '../base/workspace.ts'
import { openDoor, type Door } from '../door/index.ts'
import { capabilitiesOf } from '../policy/index.ts'
import type { Job } from './job.ts'
import { version } from './version.ts'

export const doorFolder = (workspaceDir: string): string => join(workspaceDir, 'door')

/** A door that guards no commands, as most do not, made before it is known for whom. */
export async function spareDoor(folder: string): Promise<Door> {
  const door = await openDoor(folder, { commands: [], version })
  await door.furnish()
  return door
}

/** What an agent in a sandbox can ask through. At level 0 nothing is in its way, so there is nothing to ask for. */
export async function doorFor(
  job: Pick<Job, 'contract' | 'config'>,
  workspace: Workspace,
  note: (event: EventBody) => void,
  spare: Door | null = null,
): Promise<Door | null> {
  if (job.contract.level === 0) return null
  try {
    const anyLevel = boundaryLevels.flatMap((each) => capabilitiesOf(each, job.config).commands.deny)
    const folder = doorFolder(workspace.dir)
    if (spare !== null && anyLevel.length === 0) {
      const isMoved = await spare.moveTo(folder).then(
        () => true,
        () => false,
      )
      if (isMoved) return spare
    }
    return await openDoor(folder, { commands: anyLevel, version })
  } catch (error) {
    return shut(error, note)
  }
}

/** What the agent finds behind it, before its first instruction. */
export async function furnishDoor(
  door: Door | null,
  { contract, config }: Pick<Job, 'contract' | 'config'>,
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
