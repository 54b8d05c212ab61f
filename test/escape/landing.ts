import { cp } from 'node:fs/promises'
import { layout } from '../../src/engine/base/paths.ts'
import { run } from '../../src/engine/base/process.ts'
import type { Workspace } from '../../src/engine/base/workspace.ts'
import { realDisk, type Disk } from '../../src/engine/changeset/disk.ts'
import { createChangesets, type Changesets } from '../../src/engine/changeset/index.ts'
import type { Changeset } from '../../src/shared/changeset.ts'
import { openStore } from '../../src/engine/store/index.ts'
import { aDispatch } from '../../src/engine/store/testing.ts'
import type { World } from './world.ts'

/** The engine's changesets, with a record for this dispatch. */
export async function withChangesets<T>(
  { ground }: World,
  workspace: Workspace,
  use: (changesets: Changesets) => Promise<T>,
  disk: Disk = realDisk,
): Promise<T> {
  const store = await openStore(ground.dataDir)
  try {
    if (store.dispatches.find(workspace.id) === undefined)
      store.dispatches.create({ ...aDispatch({ id: workspace.id }), repoId: workspace.repoId })
    return await use(createChangesets({ layout: layout(ground.dataDir), records: store.changesets, disk }))
  } finally {
    await store.close()
  }
}

/** How many changes the engine finds. */
export const captureOurWay = (world: World, workspace: Workspace): Promise<number> =>
  withChangesets(world, workspace, async (changesets) => {
    return (await changesets.capture(workspace, { final: true }))?.files ?? 0
  })

/** Captures what the probe left and lands all of it that "approve all" lands, as the engine does. */
export const landOurWay = (
  world: World,
  workspace: Workspace,
  between?: (changeset: Changeset) => Promise<void>,
): Promise<void> =>
  withChangesets(world, workspace, async (changesets) => {
    await changesets.capture(workspace, { final: true })
    await between?.(await changesets.get(workspace.id))
    // A refusal is one way to hold.
    await changesets
      .apply(workspace.id, { all: true, include_ignored: false }, 'escape suite')
      .catch(() => null)
  })

/** What a tool without a review does: the agent's layer is copied over the user's files. */
export async function landCarelessly({ ground }: World): Promise<void> {
  await cp(ground.upper, ground.root, { recursive: true, verbatimSymlinks: true, force: true })
}

/** As the user, in the project, after it has landed: with the configuration that is there. */
export async function asUser(world: World, script: string): Promise<void> {
  await run('sh', ['-c', script], {
    cwd: world.ground.root,
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: world.ground.home,
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
      LANG: 'C.UTF-8',
    },
    timeoutMs: 20_000,
  })
}
