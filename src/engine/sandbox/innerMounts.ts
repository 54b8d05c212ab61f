import { readFile } from 'node:fs/promises'
import { OrangeryError } from '../../shared/errors.ts'
import { minimalEnv, run } from '../base/process.ts'
import { unescapeMount } from './bytes.ts'
import type { SandboxPlan } from './plan.ts'

export type InnerMount = {
  readonly id: string
  readonly point: string
  readonly options: readonly string[]
}

/** Every mount of a mountinfo. */
export function parseMounts(mountinfo: string): readonly (InnerMount & { readonly device: string })[] {
  return mountinfo.split('\n').flatMap((line) => {
    const [id = '', , device = '', , point, options = ''] = line.split(' ')
    return point === undefined
      ? []
      : [{ id, device, point: unescapeMount(point), options: options.split(',') }]
  })
}

/** Of a mountinfo, every mount of the file system at a root: one named through a symlink is at its real path too. */
export function mountsOfRoot(mountinfo: string, target: string): readonly InnerMount[] {
  const mounts = parseMounts(mountinfo)
  const devices = new Set(mounts.flatMap(({ point, device }) => (point === target ? [device] : [])))
  return mounts.filter(({ device }) => devices.has(device))
}

export const isWritable = ({ options }: InnerMount) => options.includes('rw')

/**
 * Arguments: mount (id options path)… What a path leads to is opened first, and told by the number of its mount: the agent
 * can put a link where a folder was, and another mount would be made writable.
 */
const remountScript = String.raw`
mount=$1; shift
while [ $# -gt 0 ]; do
  exec 4<"$3"
  found=
  while read -r name value; do [ "$name" != mnt_id: ] || found=$value; done </proc/self/fdinfo/4
  [ "$found" = "$1" ] || exit 1
  "$mount" -i -c -o "$2" /proc/self/fd/4 || exit 1
  shift 3
done
`

/**
 * The second way to make a root read-only: not the file system but each of its mounts inside. The first is refused for as
 * long as a file or folder without a name is open anywhere, be it for reading, since the end of it will be a change; this
 * one only while somebody writes. Whoever does it stands in the agent's mount namespace with the host's root and the
 * holder's rights: what it loads is none of the agent's. (escape: relay-preload)
 */
export class InnerMounts {
  readonly #tools: SandboxPlan['tools']
  readonly #shell: SandboxPlan['shell']
  readonly #holder: number
  readonly #agent: number
  readonly #narrowed = new Map<string, readonly InnerMount[]>()

  /** Both as the host numbers them. */
  constructor({ tools, shell }: SandboxPlan, holder: number, agent: number) {
    this.#tools = tools
    this.#shell = shell
    this.#holder = holder
    this.#agent = agent
  }

  get canNarrow(): boolean {
    return this.#tools.nsenter !== null
  }

  async #list(target: string): Promise<readonly InnerMount[]> {
    return mountsOfRoot(await readFile(`/proc/${this.#agent}/mountinfo`, 'utf8').catch(() => ''), target)
  }

  async #set(mounts: readonly InnerMount[], files: 'ro' | 'rw'): Promise<boolean> {
    const { nsenter } = this.#tools
    if (nsenter === null) return false
    const { code } = await run(
      nsenter,
      [
        `--user=/proc/${this.#holder}/ns/user`,
        `--mount=/proc/${this.#agent}/ns/mnt`,
        '--root=/',
        '--preserve-credentials',
        '--',
        this.#shell.sh,
        '-c',
        remountScript,
        'orangery-remount',
        this.#shell.mount,
        ...mounts.flatMap(({ id, point, options }) => {
          // All that is not said anew is dropped, nosuid too.
          const flags = [...options.filter((option) => option !== 'ro' && option !== 'rw'), files]
          return [id, ['remount', 'bind', ...flags].join(','), `/proc/${this.#agent}/root${point}`]
        }),
      ],
      { env: minimalEnv, timeoutMs: 2000 },
    )
    return code === 0
  }

  /** Every mount there is, as it is now. */
  async all(): Promise<readonly InnerMount[]> {
    return parseMounts(await readFile(`/proc/${this.#agent}/mountinfo`, 'utf8').catch(() => ''))
  }

  /** Whether those mounts are so now, as the kernel says. Where one cannot be, the others may be all the same. */
  async assign(ids: ReadonlySet<string>, files: 'ro' | 'rw'): Promise<boolean> {
    const isWrong = (mount: InnerMount) => ids.has(mount.id) && isWritable(mount) !== (files === 'rw')
    const wrong = (await this.all()).filter(isWrong)
    if (wrong.length === 0) return true
    await this.#set(wrong, files)
    return !(await this.all()).some(isWrong)
  }

  /** Whether all of them are read-only now. Otherwise they are as they were. */
  async narrow(target: string): Promise<boolean> {
    const writable = (await this.#list(target)).filter(isWritable)
    if (writable.length === 0) return false
    this.#narrowed.set(target, writable)
    for (const mount of writable) if (!(await this.#set([mount], 'ro'))) break
    // The agent may have moved a folder above while a path was walked: what counts is what the kernel says of them now.
    if (!(await this.#list(target)).some(isWritable)) return true
    await this.widen(target).catch(() => {})
    return false
  }

  async widen(target: string): Promise<void> {
    const wished = new Set(this.#narrowed.get(target)?.map(({ id }) => id))
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
}
