import { access, mkdir, rm, stat, statfs } from 'node:fs/promises'
import { release } from 'node:os'
import { join } from 'node:path'
import { makeScratch, sparePlaces } from '../../base/ownedScratch.ts'
import { run, type RunResult } from '../../base/process.ts'
import type { Ability } from './ability.ts'
import { containerFuse, containerVolume } from './container.ts'

type Tools = Readonly<Record<'sh' | 'unshare' | 'mount' | 'fuse-overlayfs', string | null>>

const patienceMs = 5000

/** What was said of the failure, or how it ended: programs warn of other things before. */
function failureOf({ stderr, code, signal }: Pick<RunResult, 'stderr' | 'code' | 'signal'>): string {
  const lines = stderr.toString().trim().split('\n')
  const told = lines.filter((line) => line !== '' && !/ignored/i.test(line))
  const isFailure = (line: string) => /cannot|failed|denied|not permitted|no such|unable|error/i.test(line)
  const ended = signal === 'SIGKILL' ? notInTime : `it ended with ${code ?? signal ?? 'no word'}`
  return told.find(isFailure) ?? told.at(-1) ?? ended
}
const notInTime = `it did not answer within ${patienceMs / 1000} s`

const filesystems: Readonly<Record<number, string>> = {
  0xef53: 'ext4',
  0x9123683e: 'btrfs',
  0x58465342: 'xfs',
  0x01021994: 'tmpfs',
  0x794c7630: 'overlay',
  0x6969: 'nfs',
  0xf15f: 'ecryptfs',
  0x65735546: 'fuse',
  0x2fc12fc1: 'zfs',
  0xf2f52010: 'f2fs',
}

/** Of those above: the kernel takes no writable layer of an overlay there, whatever `mount` says of it. */
const withoutWritable: ReadonlySet<string> = new Set(['nfs', 'ecryptfs', 'overlay', 'fuse'])

export async function filesystemOf(folder: string): Promise<string> {
  const type = (await statfs(folder).catch(() => null))?.type
  return type === undefined ? 'unknown' : (filesystems[type] ?? `0x${type.toString(16)}`)
}

/**
 * Not even as a layer that is only read: the kernel mounts such an overlay and breaks on the first file that is opened
 * through it, and whoever opened it hangs for good (seen with 6.1).
 */
export const breaksOverlays = (filesystem: string): boolean => filesystem === 'ecryptfs'

// A kernel that mounts an overlay may still refuse to write through it (nfs, ecryptfs): so write once.
const layers = 'lowerdir=lower,upperdir=upper,workdir=work'
const useMerged = ': >merged/written && mkdir merged/folder && rm merged/written'
const tryKernelOverlay = `cd "$1" && "$2" -i -t overlay -o ${layers},userxattr,index=off,xino=off overlay merged && ${useMerged}`
const tryFuseOverlay = `cd "$1" && "$2" -o ${layers} merged && ${useMerged}`

export async function detectDataFolder(dataDir: string): Promise<Ability> {
  try {
    await using _made = await makeScratch(sparePlaces({ dataDir }))
    return { ok: true }
  } catch (error) {
    const why = `${dataDir} cannot be written (${(error as Error).message})`
    return { ok: false, why, fix: 'export ORANGERY_DATA_DIR=/path/you/may/write' }
  }
}

/** Mounts an overlay with its writable layer in the data folder, as the holder will, and throws it away. */
async function tryOverlay(tools: Tools, dataDir: string, script: string, program: string) {
  await using scratch = await makeScratch(sparePlaces({ dataDir }))
  const { folder } = scratch
  try {
    for (const name of ['lower', 'upper', 'work', 'merged']) await mkdir(join(folder, name))
    const inside = [tools.sh ?? 'sh', '-c', script, 'sh', folder, program]
    return await run(tools.unshare ?? 'unshare', ['-Urmpf', '--kill-child=KILL', ...inside], {
      timeoutMs: patienceMs,
    })
  } finally {
    await rm(join(folder, 'work', 'work'), { recursive: true, force: true }).catch(() => {})
  }
}

/** Where the workspaces of this host would lie. */
type Place = {
  readonly tools: Tools
  readonly dataDir: string
  readonly filesystem: string
  readonly insideContainer: string | null
}

export const elsewhere = 'export ORANGERY_DATA_DIR=/path/on/ext4/xfs/or/btrfs'

/** Why the kernel mounts no overlay over the user's folders here, and what helps. */
export function explainNoOverlay(signs: {
  readonly kernel: string
  readonly filesystem: string
  readonly said: string
  /** Whether fuse-overlayfs is installed: it is told of apart whether it works. */
  readonly hasFuse: boolean
  /** What gives the data folder another file system, where that takes more than another folder. */
  readonly otherPlace: string | null
}): Ability {
  const { kernel, filesystem, said, hasFuse, otherPlace } = signs
  const [major = 0, minor = 0] = kernel.split('.').map(Number)
  if (major < 5 || (major === 5 && minor < 11)) {
    return {
      ok: false,
      why: `Linux ${kernel} is older than 5.11, the first that lets ordinary users mount an overlay`,
      fix: hasFuse ? 'Use Linux 5.11 or newer.' : 'sudo apt install fuse-overlayfs',
    }
  }
  if (said === notInTime) return { ok: false, why: `the kernel overlay: ${said}`, fix: tryAgain }
  const why = withoutWritable.has(filesystem)
    ? `the kernel takes no writable layer of an overlay on ${filesystem}, where the data folder is`
    : `the kernel cannot mount an overlay with its writable layer on ${filesystem} (${said})`
  return { ok: false, why, fix: otherPlace ?? elsewhere }
}
const tryAgain = 'Try again when the machine is less busy.'

export async function detectOverlay({
  tools,
  dataDir,
  filesystem,
  insideContainer,
}: Place): Promise<Ability> {
  if (tools.mount === null) return { ok: false, why: 'mount is not installed', fix: 'sudo apt install mount' }
  const tried = await tryOverlay(tools, dataDir, tryKernelOverlay, tools.mount)
  if (tried.code === 0) return { ok: true }
  const hasFuse = tools['fuse-overlayfs'] !== null
  // The root of a container is one overlay: another folder would lie on it too.
  const isOfRoot = (await stat('/')).dev === (await stat(dataDir)).dev
  const otherPlace = isOfRoot ? containerVolume(insideContainer, dataDir) : null
  return explainNoOverlay({ kernel: release(), filesystem, said: failureOf(tried), hasFuse, otherPlace })
}

export async function detectFuseOverlay({
  tools,
  dataDir,
  insideContainer,
}: Omit<Place, 'filesystem'>): Promise<Ability> {
  const program = tools['fuse-overlayfs']
  const fix = 'sudo apt install fuse-overlayfs'
  if (program === null) return { ok: false, why: 'fuse-overlayfs is not installed', fix }
  const isDevice = await access('/dev/fuse').then(
    () => true,
    () => false,
  )
  if (!isDevice) {
    return {
      ok: false,
      why: 'there is no /dev/fuse',
      fix: containerFuse(insideContainer) ?? 'sudo modprobe fuse',
    }
  }
  const tried = await tryOverlay(tools, dataDir, tryFuseOverlay, program)
  return tried.code === 0 ? { ok: true } : explainNoFuse(tried)
}

/** Why fuse-overlayfs mounts nothing here, and what helps. */
export function explainNoFuse(tried: Pick<RunResult, 'stderr' | 'code' | 'signal'>): Ability {
  const said = failureOf(tried)
  const fix = /\/dev\/fuse.*(denied|not permitted)/i.test(said)
    ? 'sudo chmod 666 /dev/fuse'
    : /\/dev\/fuse/.test(said)
      ? 'sudo modprobe fuse'
      : said === notInTime
        ? tryAgain
        : elsewhere
  return { ok: false, why: `fuse-overlayfs does not work here (${said})`, fix }
}

/** What can carry these folders: over some the kernel overlay is not to be tried, and the next step of the ladder is. */
export async function overlaysOver(
  folders: readonly string[],
  host: { readonly overlay: Ability; readonly fuseOverlay: Ability } & Pick<
    Place,
    'tools' | 'insideContainer'
  >,
  dataDir: string,
): Promise<{ readonly kernelOverlay: boolean; readonly fuseOverlayfs: boolean }> {
  const { overlay, fuseOverlay } = host
  const found = await Promise.all(folders.map(filesystemOf))
  if (!overlay.ok || !found.some(breaksOverlays))
    return { kernelOverlay: overlay.ok, fuseOverlayfs: fuseOverlay.ok }
  return { kernelOverlay: false, fuseOverlayfs: (await detectFuseOverlay({ ...host, dataDir })).ok }
}
