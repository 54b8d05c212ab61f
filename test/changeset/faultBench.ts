import { constants, existsSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { layout } from '../../src/engine/base/paths.ts'
import type { Workspace } from '../../src/engine/base/workspace.ts'
import { createChangesets } from '../../src/engine/changeset/changesets.ts'
import { realDisk, watchedDisk, type Disk } from '../../src/engine/changeset/disk.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'
import { openStore } from '../../src/engine/store/index.ts'
import type { watchCalls } from './everyCall.ts'
import { copyTree, pictureOf, signOf } from './trees.ts'

/** `look`: a capture while the agent runs; `commit`: an apply that also makes a commit; `hooks`: with the user's hooks; `own`: with the agent's commits. */
export type Act = 'look' | 'capture' | 'apply' | 'commit' | 'hooks' | 'own' | 'undo'
type Work = {
  readonly setUp: string
  readonly script: string
  /** What the user does after the capture. */
  readonly meanwhile?: string
}

/** In two roots, with edits of the user to be woven in, one of them under a name that the agent changes. */
const everything: Work = {
  setUp: `seq 30 > edit; echo gone > gone; mkdir -p sub/deep swap keep/inner; echo s > sub/deep/s; echo w > swap/w
  echo link > target; ln -s target link; seq 9 > mode; chmod 644 mode; echo f > becomes; echo k > keep/inner/k
  seq 30 > woven; seq 40 > named; seq 5 > ../second/other`,
  script: `sed -i 's/^7$/seven/;s/^23$/x/' edit; rm gone; rm -r sub; mkdir -p new/er; echo n > new/er/n; rm -r swap; echo now > swap
  ln -sfn edit link; chmod 755 mode; rm becomes; mkdir becomes; echo in > becomes/in; mkdir -m 711 empty; echo K > keep/inner/k
  sed -i s/^3$/three/ woven; mv named renamed; sed -i s/^3$/three/ renamed; echo six >> ../second/other; echo n > ../second/new`,
  meanwhile: 'sed -i s/^27$/mine/ woven named',
}

/** One change of each kind that lands by operations of its own: for kills that cost a process each. */
export const few: Work = {
  setUp: 'seq 30 > edit; echo gone > gone; mkdir swap; echo w > swap/w; seq 9 > mode',
  script:
    'sed -i s/^7$/seven/ edit; rm gone; rm -r swap; echo now > swap; mkdir new; ln -s ../edit new/link; chmod 755 mode',
}

/** What lands in a folder that is swapped meanwhile, in every way there is. */
export const nested: Work = {
  setUp:
    'mkdir -p keep/inner keep/old; echo k > keep/inner/k; echo g > keep/inner/gone; echo o > keep/old/o; seq 9 > edit',
  script: `echo K > keep/inner/k; chmod 755 keep/inner/k; rm keep/inner/gone; rm -r keep/old; mkdir keep/new
  echo n > keep/new/n; ln -s k keep/inner/l; echo x >> edit`,
}

/** The hook leaves its mark in the commit: what a commit is made of is known only once it was made. */
export const committed: Work = {
  ...few,
  setUp: `git init -q -b main .; git config user.name u; git config user.email u@u; ${few.setUp}; git add .; git commit -qm one
  printf '#!/bin/sh\necho hooked >> "$1"\n' > .git/hooks/commit-msg; chmod +x .git/hooks/commit-msg`,
}

const commitAll = 'git add -A; git -c core.hooksPath=/dev/null commit -qm'
/** The agent commits all of it itself, in two. */
export const committedByAgent: Work = {
  ...committed,
  script: `echo first >> edit; ${commitAll} first; ${few.script}; ${commitAll} second`,
}

/** After these the disk is as it was. */
const reading = new Set(['lstat', 'stat', 'list', 'read', 'readlink', 'open', 'close', 'sync', 'flush'])
export const isReading = (operation: string): boolean => reading.has(operation)
/** A crash of the process loses nothing that was written: waiting for the disk would be most of the suite's time. */
const quickDisk: Disk = { ...realDisk, sync: async () => {}, flush: async () => true }
/** A file that is opened to be made is told as what it is. */
export const watched = (before: (operation: string, count: number) => void): Disk =>
  watchedDisk((operation, count, [, flags]) => {
    const isNew = operation === 'open' && (Number(flags) & constants.O_CREAT) !== 0
    before(isNew ? 'create' : operation, count)
  }, quickDisk)

export const isCapture = (act: Act): boolean => act === 'look' || act === 'capture'

const unexpected = () => {
  throw new Error('it went through in spite of the failure')
}

/** What the agent wrote is only read: it stays in place, with its extended attributes. */
const sandboxes = new Set(['sandboxes'])

const patience = { maxRetries: 20, retryDelay: 20 }

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

  static async make(act: Act, work: Work = everything): Promise<FaultBench> {
    const bench = await Bench.make(['project', 'second'])
    await bench.user(work.setUp)
    const workspace = await bench.workspace()
    await bench.agent(workspace, work.script)
    const it = new FaultBench(bench, workspace)
    if (!isCapture(act)) {
      await bench.changesets.capture(workspace, { final: true })
      await bench.user(work.meanwhile ?? ':')
    }
    const before = it.picture()
    it.#save('master')
    ;[it.old, it.new] = [before, before]
    if (isCapture(act)) return it
    if (act === 'undo') await it.#applyHalf()
    await bench.changesets.apply(workspace.id, { all: true, include_ignored: false }, 'test')
    const after = it.picture()
    if (act !== 'undo') it.new = after
    else {
      it.old = after
      it.#save('master')
    }
    return it
  }

  /** What is undone has landed in two applies: every other file, and one hunk of those that have more. */
  async #applyHalf(): Promise<void> {
    const { changesets } = this.bench
    const { id } = this.workspace
    const { files, revision } = await changesets.get(id)
    for (const { root, path, hunks } of files.filter((file, at) => at % 2 === 0 || file.hunks.length > 1)) {
      const hunk = hunks.length > 1 ? hunks[0]?.id : undefined
      await changesets.decide(id, { root, path, hunk, verdict: 'approve', revision }, 'test')
    }
    const { applied, state } = await changesets.apply(id, { all: false, include_ignored: false }, 'test')
    if (applied.length === 0 || state !== 'review') throw new Error('it did not land in part')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.bench[Symbol.asyncDispose]()
  }

  picture(): string {
    const pictures = this.bench.roots.map((root) => pictureOf(root))
    // A commit follows the files; whether it was made is told, and is no matter of old or new files.
    return pictures.join('--\n').replaceAll(/^\.git\/.*\n/gm, '')
  }

  reset(): void {
    this.#clear()
    for (const name of this.#names) copyTree(this.#at('master', name), this.#at(name))
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
        const all = { all: true, include_ignored: false }
        const commit = { branch: 'main', own: act === 'own', hooks: act === 'hooks' }
        if (isCapture(act)) await changesets.capture(this.workspace, { final: act === 'capture' })
        if (act === 'apply') await changesets.apply(id, all, 'test')
        if (act === 'commit' || act === 'hooks' || act === 'own')
          await changesets.apply(id, { ...all, commit }, 'test')
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
   * `watchAlso`: what else is an operation. `failAt`: that operation fails, and only the crashes on the way back from it count.
   */
  async crashes(
    act: Act,
    failAt = 0,
    watchAlso?: typeof watchCalls,
  ): Promise<{ operations: number; images: readonly string[] }> {
    const images: string[] = []
    let operations = 0
    let hasChanged = true
    let changes = 0
    let last = ''
    this.reset()
    let totalChanges = () => 0
    const note = (operation: string, changesNothing: boolean) => {
      operations += 1
      const now = totalChanges()
      if (operations === failAt) throw Object.assign(new Error('EACCES: injected'), { code: 'EACCES' })
      // What is written in a scratch folder changes nothing that outlives a crash.
      const sign = operations > failAt && (hasChanged || now !== changes) ? this.#sign() : last
      if (sign !== last) {
        last = sign
        images.push(`${act} ahead of ${operation} (${operations})`)
        this.#save(`image-${images.length}`)
      }
      hasChanged = !changesNothing
      changes = now
    }
    await using it = await this.open(watched((operation) => note(operation, isReading(operation))))
    totalChanges = () => it.store.database.sqlite.prepare('SELECT total_changes()').pluck().get() as number
    using _calls = watchAlso?.(note)
    const ended = it.act(act)
    await (failAt === 0 ? ended : ended.then(unexpected, () => {}))
    return { operations, images }
  }

  /** Puts the disk into the state of the n-th image. */
  crash(image: number): void {
    this.#clear()
    for (const name of this.#names) renameSync(this.#at(`image-${image + 1}`, name), this.#at(name))
    copyTree(this.#at(`image-${image + 1}`, 'data'), this.#at('data'))
    rmSync(this.#at(`image-${image + 1}`), { recursive: true })
  }

  #sign(): string {
    const places = [...this.#names, 'data'].map((name) => this.#at(name))
    return places.map((place) => signOf(place, sandboxes)).join('')
  }

  #save(name: string): void {
    rmSync(this.#at(name), { recursive: true, force: true })
    for (const root of this.#names) copyTree(this.#at(root), this.#at(name, root))
    copyTree(this.#at('data'), this.#at(name, 'data'), sandboxes)
  }

  /** Everything goes but what the agent wrote. */
  #clear(): void {
    for (const name of this.#names) rmSync(this.#at(name), { recursive: true, force: true })
    const { repoId } = this.workspace
    const repo = this.#at('data', 'repos', repoId)
    for (const name of readdirSync(this.#at('data')))
      if (name !== 'repos') rmSync(this.#at('data', name), { recursive: true })
    for (const name of existsSync(repo) ? readdirSync(repo) : [])
      // A git that was left behind by the fault may still be writing there, and may take its folder away itself.
      if (!sandboxes.has(name)) rmSync(join(repo, name), { recursive: true, force: true, ...patience })
  }

  get #names(): string[] {
    return this.bench.roots.map((root) => basename(root))
  }

  #at(...names: string[]): string {
    return join(this.bench.folder, ...names)
  }
}
