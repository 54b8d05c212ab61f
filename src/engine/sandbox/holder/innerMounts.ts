import { closeSync, openSync, realpathSync } from 'node:fs'
import { OrangeryError } from '../../../shared/errors.ts'
import { minimalEnv, run } from '../../base/process.ts'
import { readProcess } from './chain.ts'
import { agentHome } from '../plan/etc.ts'
import { isWritable, mountsOf, parseMounts, type InnerMount, type Place } from '../narrow/mountTable.ts'
import type { SandboxPlan } from '../plan/plan.ts'
import type { ProcessTree } from '../narrow/tree.ts'

const pathOnly = 0o10000000
const nowhere: Place = { devices: new Set(), ids: new Set() }

function tryOpen(path: string): number | null {
  try {
    return openSync(path, pathOnly)
  } catch {
    return null
  }
}

/** At level 0 the host's own symlinks are in the way, and a mount stands where they lead. */
export const pointOf = ({ confinement }: Pick<SandboxPlan, 'confinement'>, target: string) =>
  confinement === 'holder' ? realpathSync(target) : target

/** Arguments: mount options… The first are for what is open as descriptor 4, and so on. */
const remountScript = String.raw`
mount=$1 number=4; shift
for options; do
  "$mount" -i -c -o "$options" "/proc/self/fd/$number" || exit 1
  number=$((number + 1))
done
`

/**
 * The second way to make a root read-only: not the file system but each of its mounts inside. The first is refused for as
 * long as a file or folder without a name is open anywhere, be it for reading, since the end of it will be a change; this
 * one only while somebody writes. Whoever does it stands in the agent's mount namespace with the host's root and the
 * holder's rights: what it loads is none of the agent's. (escape: relay-preload) What it remounts it has in hand since
 * before the agent's first instruction: no path is walked. (escape: narrow-moved-root)
 */
export class InnerMounts implements Disposable {
  /** All that an agent can fill on the host's disk: the roots and its home. */
  readonly kept: Place
  readonly #tools: SandboxPlan['tools']
  readonly #shell: SandboxPlan['shell']
  readonly #holder: number
  readonly #tree: ProcessTree
  readonly #places = new Map<string, Place>()
  /** By the id of the mount. */
  readonly #handles = new Map<string, number>()
  #namespace: number | null
  readonly #narrowed = new Map<string, ReadonlySet<string>>()

  /** Both as the host numbers them. The agent still stands at the gate: nothing inside has another name yet. */
  constructor(plan: SandboxPlan, holder: number, gate: number, tree: ProcessTree) {
    this.#tools = plan.tools
    this.#shell = plan.shell
    this.#holder = holder
    this.#tree = tree
    const mounts = parseMounts(readProcess(gate, 'mountinfo'))
    const at = (target: string) => mounts.findLast(({ point }) => point === target)
    this.#namespace = tryOpen(`/proc/${gate}/ns/mnt`)
    for (const { target } of plan.roots) {
      const device = at(pointOf(plan, target))?.device
      if (device === undefined) continue
      this.#places.set(target, { devices: new Set([device]), ids: new Set() })
    }
    const devices = new Set([...this.#places.values()].flatMap((place) => [...place.devices]))
    const apart = new Set(plan.places.map(({ target }) => target))
    for (const { id, device, point } of mounts) {
      const handle = devices.has(device) || apart.has(point) ? tryOpen(`/proc/${gate}/root${point}`) : null
      if (handle !== null) this.#handles.set(id, handle)
    }
    const { roots } = plan.request.workspace
    const bound = [
      agentHome,
      ...roots.flatMap(({ mount, target }) => (mount.kind === 'bind' ? [target] : [])),
    ]
    this.kept = {
      devices,
      ids: new Set(bound.flatMap((target) => at(target)?.id ?? [])),
    }
  }

  get canNarrow(): boolean {
    return this.#tools.nsenter !== null
  }

  placeOf(target: string): Place {
    return this.#places.get(target) ?? nowhere
  }

  /** In every mount namespace inside. */
  async #list(target: string): Promise<readonly InnerMount[]> {
    const place = this.placeOf(target)
    return (await this.#tree.mountinfos()).flatMap((mountinfo) => mountsOf(parseMounts(mountinfo), place))
  }

  /** Every mount there is, as it is now. */
  async all(): Promise<readonly InnerMount[]> {
    return (await this.#tree.mountinfos()).flatMap(parseMounts)
  }

  /** Whether those mounts are so now, as the kernel says. Where one cannot be, the others may be all the same. */
  async assign(ids: ReadonlySet<string>, files: 'ro' | 'rw'): Promise<boolean> {
    const isWrong = (mount: InnerMount) => ids.has(mount.id) && isWritable(mount) !== (files === 'rw')
    const wrong = (await this.all()).filter(isWrong)
    if (wrong.length === 0) return true
    await this.#set(wrong, files)
    const now = await this.all()
    return now.length > 0 && !now.some(isWrong)
  }

  async #set(mounts: readonly InnerMount[], files: 'ro' | 'rw'): Promise<boolean> {
    const { nsenter } = this.#tools
    const namespace = this.#namespace
    const held = mounts.flatMap(({ id, options }) => {
      const handle = this.#handles.get(id)
      return handle === undefined ? [] : [{ handle, options }]
    })
    if (nsenter === null || namespace === null || held.length < mounts.length) return false
    const { code } = await run(
      nsenter,
      [
        `--user=/proc/${this.#holder}/ns/user`,
        '--mount=/proc/self/fd/3',
        '--root=/',
        '--preserve-credentials',
        '--',
        this.#shell.sh,
        '-c',
        remountScript,
        'orangery-remount',
        this.#shell.mount,
        // All that is not said anew is dropped, nosuid too.
        ...held.map(({ options }) =>
          ['remount', 'bind', ...options.filter((option) => option !== 'ro' && option !== 'rw'), files].join(
            ',',
          ),
        ),
      ],
      {
        env: minimalEnv,
        timeoutMs: 2000,
        descriptors: [namespace, ...held.map(({ handle }) => handle)],
      },
    )
    return code === 0
  }

  /** Whether all of them are read-only now. Otherwise they are as they were. */
  async narrow(target: string): Promise<boolean> {
    const writable = (await this.#list(target)).filter(isWritable)
    if (writable.length === 0) return false
    this.#narrowed.set(target, new Set(writable.map(({ id }) => id)))
    for (const mount of writable) if (!(await this.#set([mount], 'ro'))) break
    // What counts is what the kernel says of them now.
    const now = await this.#list(target)
    if (now.length > 0 && !now.some(isWritable)) return true
    await this.widen(target).catch(() => {})
    return false
  }

  async widen(target: string): Promise<void> {
    const wished = this.#narrowed.get(target)
    if (wished === undefined) return
    for (const mount of await this.#list(target)) {
      if (!wished.has(mount.id) || isWritable(mount) || (await this.#set([mount], 'rw'))) continue
      throw new OrangeryError(
        'sandbox.files_fixed',
        `files stay read-only: ${mount.point} cannot be remounted`,
        {
          kind: 'busy',
          hint: 'Try again, or start the dispatch anew with the boundary it needs.',
        },
      )
    }
    this.#narrowed.delete(target)
  }

  /** In time: whoever has them in hand keeps the workspace mounted. */
  [Symbol.dispose](): void {
    const held = [...this.#handles.values(), ...(this.#namespace === null ? [] : [this.#namespace])]
    this.#handles.clear()
    this.#namespace = null
    for (const handle of held) closeSync(handle)
  }
}
