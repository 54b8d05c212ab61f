import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { clockSlackMs } from '../../src/engine/changeset/capture/scan.ts'
import type { EscapeCase } from './case.ts'
import { asUser, landCarelessly, landOurWay } from './landing.ts'
import type { World } from './world.ts'

export const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

/** Did the harmless file of the same changeset arrive: a landing that lands nothing shows nothing. */
const landed = (world: World) => () => exists(join(world.ground.root, 'harmless'))

export type Landing = {
  readonly id: string
  readonly group: string
  readonly attack: string
  readonly guard: string
  /** The user's files as they are before. */
  readonly before?: (world: World) => Promise<void>
  readonly probe: (world: World) => string
  /** What happens after the capture. */
  readonly between?: (world: World) => Promise<void>
  /** How a careless tool lands it, if not by copying. */
  readonly careless?: (world: World) => Promise<void>
  /** What the user does afterwards, in his own project. */
  readonly user?: string
  readonly escaped: (world: World) => Promise<boolean>
  /** What of it must have arrived besides the harmless file. */
  readonly tried?: (world: World) => Promise<boolean>
  /** Such a changeset is refused as a whole. */
  readonly isRefused?: true
}

/** The agent leaves something; it is landed, and the user goes on working. */
export const landing = (it: Landing): EscapeCase => ({
  id: it.id,
  group: it.group,
  attack: it.attack,
  guard: it.guard,
  claim: 'blocked',
  stage: async (world) => {
    await it.before?.(world)
    // A file as young as the dispatch may have changed since: it would be held back for that, and show nothing.
    await setTimeout(2 * clockSlackMs)
    const { workspace } = world.ground.request(['true'])
    return {
      probe: `echo harmless >harmless; ${it.probe(world)}`,
      control: 'sandbox',
      afterwards: async (guarded) => {
        if (guarded) await landOurWay(world, workspace, () => it.between?.(world) ?? Promise.resolve())
        else {
          await it.between?.(world)
          await (it.careless ?? landCarelessly)(world)
        }
        if (it.user !== undefined) await asUser(world, it.user)
      },
      escaped: () => it.escaped(world),
      tried:
        it.isRefused === true
          ? undefined
          : async () => (await landed(world)()) && ((await it.tried?.(world)) ?? true),
    }
  },
})
