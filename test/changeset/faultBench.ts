import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { layout } from '../../src/engine/base/paths.ts'
import { run } from '../../src/engine/base/process.ts'
import { createChangesets } from '../../src/engine/changeset/changesets.ts'
import { realDisk, watchedDisk, type Disk } from '../../src/engine/changeset/disk.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'
import { openStore } from '../../src/engine/store/index.ts'
import type { Workspace } from '../../src/engine/base/workspace.ts'

export type Act = 'capture' | 'apply' | 'undo'

const setUp = `seq 30 > edit; echo gone > gone; mkdir -p sub/deep swap; echo s > sub/deep/s; echo w > swap/w
  echo link > target; ln -s target link; seq 9 > mode; chmod 644 mode; echo f > becomes`
const script = `sed -i s/^7$/seven/ edit; rm gone; rm -r sub; mkdir -p new/er; echo n > new/er/n; rm -r swap; echo now > swap
  ln -sfn edit link; chmod 755 mode; rm becomes; mkdir becomes; echo in > becomes/in; mkdir -m 711 empty`

/** A project with one changeset, put back to the same point as often as asked. */
export class FaultBench implements AsyncDisposable {
  readonly bench: Bench
  readonly workspace: Workspace
  old = ''
  new = ''

  private constructor(bench: Bench, workspace: Workspace) {
    this.bench = bench
    this.workspace = workspace
  }

  static async make(act: Act): Promise<FaultBench> {
    const bench = await Bench.make()
    await bench.user(setUp)
    const workspace = await bench.workspace()
    await bench.agent(workspace, script)
    const it = new FaultBench(bench, workspace)
    const before = await bench.snapshot()
    if (act !== 'capture') await bench.changesets.capture(workspace, { final: true })
    await it.#save('master')
    if (act === 'capture') {
      ;[it.old, it.new] = [before, before]
      return it
    }
    await bench.changesets.apply(workspace.id, { all: true, include_ignored: false }, 'test')
    const after = await bench.snapshot()
    if (act === 'apply') {
      ;[it.old, it.new] = [before, after]
      await it.reset()
    } else {
      ;[it.old, it.new] = [after, before]
      await it.#save('master')
    }
    return it
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.bench[Symbol.asyncDispose]()
  }

  async #save(name: string): Promise<void> {
    this.bench.store.database.sqlite.pragma('wal_checkpoint(TRUNCATE)')
    const to = join(this.bench.folder, name)
    await rm(to, { recursive: true, force: true })
    await run('mkdir', ['-p', to])
    await run('cp', ['-a', 'project', 'data', to], { cwd: this.bench.folder })
  }

  async reset(): Promise<void> {
    const { folder } = this.bench
    await run(
      'sh',
      ['-ec', 'chmod -R u+rwx project; rm -rf project data; cp -a master/project master/data .'],
      {
        cwd: folder,
      },
    )
  }

  /** What a process does that starts afresh on this data folder. */
  async open(disk: Disk = realDisk) {
    const dataDir = join(this.bench.folder, 'data')
    const store = await openStore(dataDir)
    const changesets = createChangesets({ layout: layout(dataDir), records: store.changesets, disk })
    const { id } = this.workspace
    return {
      changesets,
      act: async (act: Act): Promise<void> => {
        if (act === 'capture') await changesets.capture(this.workspace, { final: true })
        if (act === 'apply') await changesets.apply(id, { all: true, include_ignored: false }, 'test')
        if (act === 'undo') await changesets.undo(id, 'test')
      },
      state: async () => (await changesets.get(id)).state,
      [Symbol.asyncDispose]: () => store.close(),
    }
  }

  async count(act: Act): Promise<readonly string[]> {
    const operations: string[] = []
    await this.reset()
    await using it = await this.open(watchedDisk((operation) => void operations.push(operation)))
    await it.act(act)
    return operations
  }
}
