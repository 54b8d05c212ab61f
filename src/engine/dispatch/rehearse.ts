import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { DispatchId } from '../../shared/ids.ts'
import { layout } from '../base/paths.ts'
import { rehearseSandbox } from '../sandbox/index.ts'
import { createEventLog } from '../store/index.ts'
import { claimWorkspace, identifyProject, prepareWorkspace, syncInvocation } from '../workspace/index.ts'
import { listenForControl } from './control.ts'
import { FollowedConfig } from './followedConfig.ts'
import { OutputLog } from './output.ts'
import type { Parts } from './parts.ts'
import { makeScratch } from './scratch.ts'

const nobody = '00000000000000-0000' as DispatchId

/**
 * Goes through the start of a dispatch of nobody, up to its first process: code that runs for the first time is
 * several times slower, and a spare has the time that an agent has not. Nothing of it stays.
 */
export async function rehearse(parts: Parts): Promise<void> {
  parts.store.dispatches.rehearse()
  await using scratch = await makeScratch(parts.runtime)
  const root = join(scratch.folder, 'root')
  await mkdir(root)
  await using _config = await FollowedConfig.open({ userConfigDir: parts.configDir, roots: [root] })
  using _control = await listenForControl(join(scratch.folder, 'c'), () => {})
  await rehearseSandbox(await parts.host(), parts.layout.dataDir)
  const place = layout(join(scratch.folder, 'data'))
  const workspace = await prepareWorkspace({
    id: nobody,
    project: await identifyProject([root]),
    strategy: 'overlay',
    driver: 'kernel-overlay',
    layout: place,
    name: null,
    runner: 'nobody',
    mode: 'headed',
  })
  const { repoId } = workspace
  await using _claim = await claimWorkspace(place, workspace)
  await using log = await createEventLog(place.events(repoId, nobody))
  log.append({ type: 'Note', text: 'a rehearsal' })
  await using _output = await OutputLog.create(place.output(repoId, nobody))
  await syncInvocation(place, repoId, nobody)
}
