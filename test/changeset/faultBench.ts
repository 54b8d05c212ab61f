import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { layout } from '../../src/engine/base/paths.ts'
import type { Workspace } from '../../src/engine/base/workspace.ts'
import { createChangesets } from '../../src/engine/changeset/changesets.ts'
import { realDisk, watchedDisk, type Disk } from '../../src/engine/changeset/disk.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'
import { openStore } from '../../src/engine/store/index.ts'
import { copyTree, pictureOf } from './trees.ts'

export type Act = 'capture' | 'apply' | 'undo'

const everything = {
  setUp: `seq 30 > edit; echo gone > gone; mkdir -p sub/deep swap keep/inner; echo s > sub/deep/s; echo w > swap/w
  echo link > target; ln -s target link; seq 9 > mode; chmod 644 mode; echo f > becomes; echo k > keep/inner/k`,
  script: `sed -i s/^7$/seven/ edit; rm gone; rm -r sub; mkdir -p new/er; echo n > new/er/n; rm -r swap; echo now > swap
  ln -sfn edit link; chmod 755 mode; rm becomes; mkdir becomes; echo in > becomes/in; mkdir -m 711 empty; echo K > keep/inner/k`,
}

/** One change of each kind that lands by operations of its own: for kills that cost a process each. */
export const few = {
  setUp: 'seq 30 > edit; echo gone > gone; mkdir swap; echo w > swap/w; seq 9 > mode',
  script:
    'sed -i s/^7$/seven/ edit; rm gone; rm -r swap; echo now > swap; mkdir new; ln -s ../edit new/link; chmod 755 mode',
}

/** After these the disk is as it was. */
const reading = new Set(['lstat', 'stat', 'list', 'read', 'readlink', 'close', 'sync', 'flush'])
export const isReading = (operation: string): boolean => reading.has(operation)
/** A crash of the process loses nothing that was written: waiting for the disk would be most of the suite's time. */
const quickDisk: Disk = { ...realDisk, sync: async () => {}, flush: async () => true }
export const watched = (before: Parameters<typeof watchedDisk>[0]): Disk => watchedDisk(before, quickDisk)

const unexpected = () => {
  throw new Error('it went through in spite of the failure')
}

/** What the agent wrote is only read: it stays in place, with its extended attributes. */
const sandboxes = new Set(['sandboxes'])

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

  static async make(act: Act, work: { setUp: string; script: string } = everything): Promise<FaultBench> {
    const bench = await Bench.make()
    await bench.user(work.setUp)
    const workspace = await bench.workspace()
    await bench.agent(workspace, work.script)
    const it = new FaultBench(bench, workspace)
    const before = it.picture()
    if (act !== 'capture') await bench.changesets.capture(workspace, { final: true })
    it.#save('master')
    ;[it.old, it.new] = [before, before]
    if (act === 'capture') return it
    await bench.changesets.apply(workspace.id, { all: true, include_ignored: false }, 'test')
    const after = it.picture()
    if (act === 'apply') it.new = after
    else {
      it.old = after
      it.#save('master')
    }
    return it
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.bench[Symbol.asyncDispose]()
  }

  picture(): string {
    return pictureOf(this.bench.root)
  }

  reset(): void {
    this.#clear()
    copyTree(this.#at('master', 'project'), this.#at('project'))
    copyTree(this.#at('master', 'data'), this.#at('data'))
  }

  /** What a process does that starts afresh on this data folder. */
  async open(disk: Disk = quickDisk) {
    const dataDir = this.#at('data')
    const store = await openStore(dataDir)
    const changesets = createChangesets({ layout: layout(dataDir), records: store.changesets, disk })
    const { id } = this.workspace
    return {
      store,
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

  /** The operations of one undisturbed run, in order. */
  async count(act: Act): Promise<readonly string[]> {
    const operations: string[] = []
    this.reset()
    await using it = await this.open(watched((operation) => void operations.push(operation)))
    await it.act(act)
    return operations
  }

  /**
   * What a crash ahead of each operation leaves on the disk: one run, and an image of files and records ahead of
   * every operation. An image that is the one before again (nothing was written in between) is not kept twice.
   * `failAt`: that operation fails, and only the crashes on the way back from it count.
   */
  async crashes(act: Act, failAt = 0): Promise<{ operations: number; images: readonly string[] }> {
    const images: string[] = []
    let operations = 0
    let hasChanged = true
    let changes = 0
    this.reset()
    let totalChanges = () => 0
    await using it = await this.open(
      watched((operation, count) => {
        operations = count
        const now = totalChanges()
        if (count === failAt) throw Object.assign(new Error('EACCES: injected'), { code: 'EACCES' })
        if (count > failAt && (hasChanged || now !== changes)) {
          images.push(`${act} ahead of ${operation} (${count})`)
          this.#save(`image-${images.length}`)
        }
        hasChanged = !isReading(operation)
        changes = now
      }),
    )
    totalChanges = () => it.store.database.sqlite.prepare('SELECT total_changes()').pluck().get() as number
    const ended = it.act(act)
    await (failAt === 0 ? ended : ended.then(unexpected, () => {}))
    return { operations, images }
  }

  /** Puts the disk into the state of the n-th image. */
  crash(image: number): void {
    this.#clear()
    renameSync(this.#at(`image-${image + 1}`, 'project'), this.#at('project'))
    copyTree(this.#at(`image-${image + 1}`, 'data'), this.#at('data'))
    rmSync(this.#at(`image-${image + 1}`), { recursive: true })
  }

  #save(name: string): void {
    rmSync(this.#at(name), { recursive: true, force: true })
    copyTree(this.#at('project'), this.#at(name, 'project'))
    copyTree(this.#at('data'), this.#at(name, 'data'), sandboxes)
  }

  /** Everything goes but what the agent wrote. */
  #clear(): void {
    rmSync(this.#at('project'), { recursive: true, force: true })
    const { repoId } = this.workspace
    const repo = this.#at('data', 'repos', repoId)
    for (const name of readdirSync(this.#at('data')))
      if (name !== 'repos') rmSync(this.#at('data', name), { recursive: true })
    for (const name of existsSync(repo) ? readdirSync(repo) : [])
      if (!sandboxes.has(name)) rmSync(join(repo, name), { recursive: true })
  }

  #at(...names: string[]): string {
    return join(this.bench.folder, ...names)
  }
}
