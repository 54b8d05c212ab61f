import { once } from 'node:events'
import { join } from 'node:path'
import { layout } from '../../src/engine/base/paths.ts'
import type { Workspace } from '../../src/engine/base/workspace.ts'
import { createChangesets } from '../../src/engine/changeset/changesets.ts'
import { realDisk, watchedDisk } from '../../src/engine/changeset/disk.ts'
import { openStore } from '../../src/engine/store/index.ts'

// Waits for its order, then kills itself, for real, ahead of one file-system operation.
const [folder = '', act = '', point = '0', text = '{}'] = process.argv.slice(2)
await once(process.stdin, 'data')
const workspace = JSON.parse(text) as Workspace
const dataDir = join(folder, 'data')
const store = await openStore(dataDir)
// What is written outlives the process that wrote it: there is no need to wait for the disk.
const quickDisk = { ...realDisk, sync: async () => {}, flush: async () => true }
const disk = watchedDisk((_, count) => {
  if (count === Number(point)) process.kill(process.pid, 'SIGKILL')
}, quickDisk)
const changesets = createChangesets({ layout: layout(dataDir), records: store.changesets, disk })
if (act === 'capture') await changesets.capture(workspace, { final: true })
if (act === 'apply') await changesets.apply(workspace.id, { all: true, include_ignored: false }, 'test')
if (act === 'undo') await changesets.undo(workspace.id, 'test')
await store.close()
process.exit(0)
