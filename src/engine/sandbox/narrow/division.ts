import { OrangeryError } from '../../../shared/errors.ts'
import type { Chain } from '../holder/chain.ts'
import type { InnerMounts } from '../holder/innerMounts.ts'
import { isWritable, type InnerMount } from './mountTable.ts'
import { narrowAgainstWriters } from './narrow.ts'
import type { HeldRoot, SandboxPlan } from '../plan/plan.ts'
import type { Stillness } from './stillness.ts'
import type { ProcessTree } from './tree.ts'
import type { WritablePlace } from '../plan/view.ts'

/**
 * Whether what can be written is more than a matter of whole roots: folders, whose file system is that of the rest, or
 * files that can be written at one level and not at another.
 */
export const isDivided = ({ places, confinement }: SandboxPlan): boolean =>
  confinement === 'bubblewrap' && places.some(({ kind, isNow }) => kind === 'folder' || !isNow)

/** Whether a root's file system itself is to be writable: where any of it is, mount by mount. */
export function needsWriting(
  { places, files }: Pick<SandboxPlan, 'places' | 'files'>,
  root: string,
  writable: ReadonlySet<string>,
): boolean {
  const isOpen = (place: WritablePlace) =>
    place.kind === 'folder' && place.root === root && writable.has(place.target)
  return files === 'rw' || places.some(isOpen)
}

export const writableAtStart = ({ places }: Pick<SandboxPlan, 'places'>): ReadonlySet<string> =>
  new Set(places.flatMap(({ target, isNow }) => (isNow ? [target] : [])))

type Held = { readonly root: string; readonly place: WritablePlace | null }

export type DivisionParts = {
  readonly plan: SandboxPlan
  readonly chain: Chain
  readonly tree: ProcessTree
  readonly stillness: Stillness
  readonly mounts: InnerMounts
  /** Makes a whole root read-only, whoever writes in it. */
  readonly narrowRoot: (root: HeldRoot) => Promise<string | null>
}

/**
 * Keeps the roots of a running sandbox writable in parts: the mount of the root is read-only, those of the places in it
 * are not. Mounts are known by their numbers, since the agent can move the folders they are in.
 */
export class Division {
  readonly #parts: DivisionParts
  readonly #held: ReadonlyMap<string, Held>

  private constructor(parts: DivisionParts, held: ReadonlyMap<string, Held>) {
    this.#parts = parts
    this.#held = held
  }

  /** Before the agent's first instruction: until then every mount is where it was planned. */
  static async of(parts: DivisionParts): Promise<Division> {
    const { plan, mounts } = parts
    const planned = new Map<string, Held>()
    for (const step of plan.view)
      if (step.kind === 'root') planned.set(step.target, { root: step.source, place: null })
    for (const place of plan.places) {
      if (place.target === place.root) continue
      const same = plan.view.filter((step) => 'source' in step && step.source === place.target)
      for (const { target } of [place, ...same]) planned.set(target, { root: place.root, place })
    }
    // What is mounted later on the same path covers what was there.
    const last = new Map((await mounts.all()).map((mount) => [mount.point, mount.id]))
    const held = [...planned].flatMap(([target, what]) => {
      const id = last.get(target)
      return id === undefined ? [] : [[id, what] as const]
    })
    return new Division(parts, new Map(held))
  }

  /** What was worth telling. What is taken away goes first. */
  async set(files: 'ro' | 'rw', writable: ReadonlySet<string>): Promise<string | null> {
    const notes: string[] = []
    for (const root of this.#parts.plan.roots) {
      if (root.access === 'rw') notes.push(...(await this.#setRoot(root, files, writable)))
    }
    return notes.length === 0 ? null : notes.join('; ')
  }

  async #setRoot(
    root: HeldRoot,
    files: 'ro' | 'rw',
    writable: ReadonlySet<string>,
  ): Promise<readonly string[]> {
    const { plan, chain, mounts, narrowRoot } = this.#parts
    const { places } = plan
    const isOpen = needsWriting({ places, files }, root.target, writable)
    const here = (await mounts.all()).flatMap((mount) => {
      const held = this.#held.get(mount.id)
      return held?.root === root.target ? [{ mount, held }] : []
    })
    const isWished = ({ place, root: target }: Held) =>
      files === 'rw' || writable.has(place?.target ?? target)
    // A file is straight from the layer, which does not follow what its root is.
    const follows = ({ place }: Held) => place?.kind !== 'file'
    const idsOf = (choose: (held: Held, mount: InnerMount) => boolean) =>
      new Set(here.flatMap(({ mount, held }) => (choose(held, mount) ? [mount.id] : [])))
    const notes = isOpen ? [] : [await narrowRoot(root)]
    notes.push(
      await this.#narrow(
        root,
        idsOf((held, mount) => !isWished(held) && isWritable(mount) && (isOpen || !follows(held))),
      ),
    )
    if (isOpen) await chain.order(`remount rw ${root.slot}`)
    const widened = idsOf((held) => isWished(held) && (isOpen || !follows(held)))
    if (!(await mounts.assign(widened, 'rw'))) {
      throw new OrangeryError(
        'sandbox.files_fixed',
        `files stay read-only: ${root.target} cannot be remounted`,
        {
          kind: 'busy',
          hint: 'Try again, or start the dispatch anew with the boundary it needs.',
        },
      )
    }
    return notes.filter((note) => note !== null)
  }

  async #narrow(root: HeldRoot, ids: ReadonlySet<string>): Promise<string | null> {
    const { plan, chain, tree, stillness, mounts } = this.#parts
    if (await mounts.assign(ids, 'ro')) return null
    const place = mounts.placeOf(root.target)
    const attempt = () => mounts.assign(ids, 'ro')
    const { prlimit } = plan.tools
    return narrowAgainstWriters({ chain, tree, stillness, mounts, place, attempt, only: ids, prlimit })
  }
}
