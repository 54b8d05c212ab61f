import { join } from 'node:path'
import { boundaryLevels, type BoundaryLevel } from '../../../shared/boundary.ts'
import type { EffectiveConfig } from '../../../shared/config.ts'
import type { EventBody } from '../../../shared/events.ts'
import type { Workspace } from '../../base/workspace.ts'
import { openDoor, type Door } from '../../door/index.ts'
import { capabilitiesOf } from '../../policy/index.ts'
import type { Job } from '../prepare/job.ts'
import { version } from '../version.ts'

export const doorFolder = (workspaceDir: string): string => join(workspaceDir, 'door')

/** A door made before it is known for whom. */
export async function spareDoor(folder: string): Promise<Door> {
  const door = await openDoor(folder, { version })
  await door.furnish()
  return door
}

/** What an agent in a sandbox can ask through. At level 0 nothing is in its way, so there is nothing to ask for. */
export async function doorFor(
  job: Pick<Job, 'contract'>,
  workspace: Workspace,
  note: (event: EventBody) => void,
  spare: Door | null = null,
): Promise<Door | null> {
  if (job.contract.level === 0) return null
  try {
    const folder = doorFolder(workspace.dir)
    if (spare !== null) {
      const isMoved = await spare.moveTo(folder).then(
        () => true,
        () => false,
      )
      if (isMoved) return spare
    }
    return await openDoor(folder, { version })
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
    await denyCommands(door, contract.boundary, config)
  } catch (error) {
    shut(error, note)
  }
}

/** What the level denies is refused by name from now on, also what the config did not deny when the agent started. */
export async function denyCommands(
  door: Door | null,
  level: BoundaryLevel,
  config: EffectiveConfig,
): Promise<void> {
  const deniedAt = (each: BoundaryLevel) => capabilitiesOf(each, config).commands.deny
  await door?.deny(deniedAt(level), boundaryLevels.flatMap(deniedAt))
}

/** An agent that cannot ask is no reason not to run it. */
function shut(error: unknown, note: (event: EventBody) => void): null {
  const why = error instanceof Error ? error.message : String(error)
  note({ type: 'Note', text: `the agent cannot ask for a wider boundary: ${why}` })
  return null
}
