import { stat, statfs } from 'node:fs/promises'
import { pause } from '../../base/pause.ts'
import { closedLister, countDisk, diskUse, leastBytes, type DiskCount } from './disk.ts'
import { watchDisk } from './diskWatch.ts'
import type { InnerMounts } from '../holder/innerMounts.ts'
import type { SandboxPlan } from '../plan/plan.ts'
import type { Stillness } from '../narrow/stillness.ts'
import type { ProcessTree } from '../narrow/tree.ts'

/** Where the workspace is a copy, its folders. */
const copiesOf = ({ workspace }: SandboxPlan['request']): readonly string[] =>
  workspace.roots.flatMap(({ mount }) => (mount.kind === 'bind' ? [mount.source] : []))

const retryMs = 200

/** By whom files without a name are found, and kept from growing. */
export type Inside = {
  readonly tree: ProcessTree
  readonly mounts: InnerMounts
  readonly stillness: Stillness
}

/** How much of the disk one run may take. */
export class DiskLimit {
  readonly #plan: SandboxPlan
  readonly #folders: readonly string[]
  readonly #ownBytes: number
  #before = 0
  #mostBytes = 0

  constructor(plan: SandboxPlan, megabytes: number) {
    this.#plan = plan
    this.#ownBytes = megabytes * 1024 * 1024
    const { request, roots } = plan
    this.#folders = [...roots.map((root) => root.upper), ...copiesOf(request), request.home]
  }

  get #limitBytes(): number {
    return this.#ownBytes + this.#before
  }

  /** A home kept from earlier runs and a copy of the user's files are not this run's use. */
  async begin(): Promise<void> {
    const { request } = this.#plan
    this.#before = await diskUse([...copiesOf(request), request.home], closedLister(this.#plan))
  }

  watch(
    { tree, mounts, stillness }: Inside,
    signal: AbortSignal,
    onOver: (isCertain: boolean) => void,
  ): void {
    const { roots } = this.#plan.request.workspace
    const places = roots.flatMap(({ path, target }) => [path, target])
    const watched = {
      look: async (most: number) => {
        const [named, nameless] = await Promise.all([this.#named(most), tree.unlinked(mounts.kept, places)])
        const bytes = named.bytes + nameless.bytes
        this.#mostBytes = Math.max(this.#mostBytes, bytes)
        return { bytes, isWhole: named.isWhole && nameless.isWhole }
      },
      used: () => this.#usedByAll(),
      hasParked: () => tree.hasCarried(),
      hold: () => stillness.hold(),
      limitBytes: this.#limitBytes,
      ownBytes: this.#ownBytes,
    }
    void this.#keepWatch(
      () => watchDisk(watched, signal, (certainty) => onOver(certainty === 'certain')),
      signal,
    )
  }

  /** Any of its questions may end with the sandbox; one that fails before that is no end of the watch. */
  async #keepWatch(watch: () => Promise<void>, signal: AbortSignal): Promise<void> {
    let isDone = false
    while (!isDone) {
      isDone = await watch().then(
        () => true,
        () => false,
      )
      if (!isDone && !(await pause(retryMs, signal))) return
    }
  }

  /**
   * After the end, when only what has a name is left: a run may be over before anybody looked. What cannot be counted
   * even then is not taken for nothing.
   */
  async isOver(): Promise<'yes' | 'likely' | 'no'> {
    const { bytes, isWhole } = await this.#named(this.#limitBytes)
    this.#mostBytes = Math.max(this.#mostBytes, bytes)
    if (bytes > this.#limitBytes) return 'yes'
    return isWhole ? 'no' : 'likely'
  }

  /**
   * The most that was counted for it: files without a name go with the run, and many empty ones are little to who
   * measures what is left.
   */
  get mostMb(): number {
    return Math.max(0, this.#mostBytes - this.#before) / 1024 / 1024
  }

  #named(most: number): Promise<DiskCount> {
    return countDisk(this.#folders, closedLister(this.#plan), most)
  }

  async #usedByAll(): Promise<{ bytes: number; filled: number }> {
    const systems = new Map<number, { bytes: number; filled: number }>()
    for (const folder of this.#folders) {
      const [info, system] = await Promise.all([
        stat(folder).catch(() => null),
        statfs(folder).catch(() => null),
      ])
      if (info === null || system === null) continue
      const bytes = (system.blocks - system.bfree) * system.bsize
      systems.set(info.dev, { bytes, filled: bytes + (system.files - system.ffree) * leastBytes })
    }
    const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)
    const all = [...systems.values()]
    return { bytes: sum(all.map(({ bytes }) => bytes)), filled: sum(all.map(({ filled }) => filled)) }
  }
}
