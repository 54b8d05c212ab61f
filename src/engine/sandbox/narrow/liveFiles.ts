import { isDeepStrictEqual } from 'node:util'
import { OrangeryError } from '../../../shared/errors.ts'
import type { Chain } from '../holder/chain.ts'
import { Division, isDivided, needsWriting, writableAtStart } from './division.ts'
import type { InnerMounts } from '../holder/innerMounts.ts'
import { describeNameless, narrowAgainstWriters } from './narrow.ts'
import type { HeldRoot, SandboxPlan } from '../plan/plan.ts'
import type { Stillness } from './stillness.ts'
import type { ProcessTree } from './tree.ts'

export type Flip = { readonly tookMs: number; readonly note: string | null }

/** Who keeps what is looked for once the root is read-only: among thousands of processes that takes longer than the change. */
type Note = string | null | (() => Promise<string>)

const told = async (note: Note) => (typeof note === 'function' ? await note() : note)

/** It may have ended of what it was refused: the change took, then. Unless the kernel had said no before. */
function endedMeanwhile(error: unknown, start: number): Flip {
  if (error instanceof OrangeryError && error.code === 'sandbox.ended') throw error
  return { tookMs: performance.now() - start, note: 'the sandbox ended meanwhile' }
}

/** What of a running sandbox's workspace can be written, changed while the agent runs. */
export class LiveFiles {
  readonly #plan: SandboxPlan
  readonly #chain: Chain
  #files: 'ro' | 'rw' = 'rw'
  #writable: ReadonlySet<string> = new Set()
  #tree: ProcessTree | null = null
  #mounts: InnerMounts | null = null
  #stillness: Stillness | null = null
  #division: Division | null = null
  #lastFlip: Promise<unknown> = Promise.resolve()

  constructor(plan: SandboxPlan, chain: Chain) {
    this.#plan = plan
    this.#chain = chain
  }

  /** Where folders stay writable their root was bound read-only instead. */
  async narrowAtStart(): Promise<void> {
    if (!isDivided(this.#plan)) {
      await this.set('ro')
      return
    }
    const { places, roots } = this.#plan
    this.#files = 'ro'
    this.#writable = writableAtStart(this.#plan)
    for (const root of roots) {
      const isOpen = needsWriting({ places, files: 'ro' }, root.target, this.#writable)
      if (root.access === 'rw' && !isOpen) await this.remount(root, 'ro')
    }
  }

  /** From here on the agent's mounts can be told apart, and its processes stopped. */
  async stand(tree: ProcessTree, mounts: InnerMounts, stillness: Stillness): Promise<void> {
    this.#tree = tree
    this.#mounts = mounts
    this.#stillness = stillness
    if (!isDivided(this.#plan)) return
    const narrowRoot = async (root: HeldRoot) => told(await this.#flipRoot(root, 'ro'))
    const [plan, chain] = [this.#plan, this.#chain]
    this.#division = await Division.of({ plan, chain, tree, stillness, mounts, narrowRoot })
  }

  set(files: 'ro' | 'rw', writable?: readonly string[]): Promise<Flip> {
    const wished = new Set(writable ?? this.#plan.request.writableFiles)
    // One flip at a time: two at once could leave the roots in different states.
    const flip = this.#lastFlip.catch(() => {}).then(() => this.#flip(files, wished))
    this.#lastFlip = flip
    return flip
  }

  async #flip(files: 'ro' | 'rw', wished: ReadonlySet<string>): Promise<Flip> {
    const start = performance.now()
    const writable = this.#plan.request.workspace.roots.filter((root) => root.access === 'rw')
    const division = this.#division
    const isSame =
      files === this.#plan.files && (division === null || isDeepStrictEqual(wished, this.#writable))
    if (!isSame && writable.some((root) => root.mount.kind === 'bind')) {
      throw new OrangeryError(
        'sandbox.files_fixed',
        `files: ${this.#plan.request.workspace.driver} workspaces cannot change while the agent runs`,
        {
          kind: 'refused',
          hint: 'Start it anew with the boundary it needs, or choose the overlay workspace.',
        },
      )
    }
    if (division !== null) {
      try {
        const note = await division.set(files, wished)
        this.#files = files
        this.#writable = wished
        return { tookMs: performance.now() - start, note }
      } catch (error) {
        if (!this.#chain.isAlive) return endedMeanwhile(error, start)
        await division.set(this.#files, this.#writable).catch(() => {})
        throw error
      }
    }
    if (files === this.#files) return { tookMs: 0, note: null }
    const roots = this.#plan.roots.filter((root) => root.access === 'rw')
    const notes: Note[] = []
    const done: HeldRoot[] = []
    try {
      for (const root of roots) {
        notes.push(await this.#flipRoot(root, files))
        done.push(root)
      }
    } catch (error) {
      if (!this.#chain.isAlive) return endedMeanwhile(error, start)
      for (const root of done) await this.remount(root, this.#files).catch(() => {})
      throw error
    }
    this.#files = files
    const tookMs = performance.now() - start
    const said = (await Promise.all(notes.map(told))).filter((note) => note !== null)
    return { tookMs, note: said.length === 0 ? null : said.join('; ') }
  }

  async remount(root: HeldRoot, files: 'ro' | 'rw'): Promise<void> {
    if (files === 'rw') await this.#mounts?.widen(root.target)
    await this.#chain.order(`remount ${files} ${root.slot}`)
  }

  async #flipRoot(root: HeldRoot, files: 'ro' | 'rw'): Promise<Note> {
    const tree = this.#tree
    const mounts = this.#mounts
    const stillness = this.#stillness
    try {
      await this.remount(root, files)
      return null
    } catch (error) {
      const isBusy = error instanceof Error && /busy/i.test(error.message)
      if (files === 'rw' || !isBusy || tree === null || mounts === null || stillness === null) throw error
    }
    const { target } = root
    const place = mounts.placeOf(target)
    if (await mounts.narrow(target)) return () => describeNameless(tree, place)
    const attempt = () =>
      this.remount(root, files).then(
        () => true,
        () => mounts.narrow(target),
      )
    const { prlimit } = this.#plan.tools
    return narrowAgainstWriters({ chain: this.#chain, tree, stillness, mounts, place, attempt, prlimit })
  }
}
