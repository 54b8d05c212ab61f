import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { layout } from '../../src/engine/base/paths.ts'
import { createChangesets } from '../../src/engine/changeset/index.ts'
import { realDisk, watchedDisk } from '../../src/engine/changeset/disk.ts'
import { openStore } from '../../src/engine/store/index.ts'
import type { DispatchId } from '../../src/shared/ids.ts'

export type Order = {
  readonly dataDir: string
  readonly id: DispatchId
  /** Where it kills itself: once this many of these files of that folder read so. */
  readonly killAt?: {
    readonly root: string
    readonly names: readonly string[]
    readonly text: string
    readonly count: number
  }
}

// Lands a changeset in a process of its own, as a supervisor does: so that it can be killed, or be limited, or go
// beside another. Told what, it gets ready and says so; told to go, it lands it and says whether it has landed.
const told = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const { dataDir, id, killAt } = JSON.parse((await told.next()).value ?? '') as Order

function killOnceThere(): void {
  if (killAt === undefined) return
  const landed = killAt.names.filter((name) => {
    try {
      return readFileSync(join(killAt.root, name), 'utf8') === killAt.text
    } catch {
      return false
    }
  })
  if (landed.length >= killAt.count) process.kill(process.pid, 'SIGKILL')
}

const disk = killAt === undefined ? realDisk : watchedDisk(killOnceThere, realDisk)
const store = await openStore(dataDir)
const changesets = createChangesets({ layout: layout(dataDir), records: store.changesets, disk })
console.log('ready')
await told.next()
const said = await changesets.apply(id, { all: true, include_ignored: false }, 'escape suite').then(
  () => 'landed',
  (error: Error) => `refused: ${error.message}`,
)
await store.close()
console.log(said)
