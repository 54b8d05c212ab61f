import { readFile, readlink, realpath } from 'node:fs/promises'
import { OrangeryError } from '../../../shared/errors.ts'
import { isInside } from './pathSafety.ts'

export type Mount = {
  /** The filesystem, as major:minor. */
  readonly device: string
  /** Which of its folders is shown. */
  readonly root: string
  /** Where it is shown. */
  readonly point: string
}

/** What is mounted for us; empty where the system keeps no such list. */
export const readMountinfo = (): Promise<string> => readFile('/proc/self/mountinfo', 'utf8').catch(() => '')

/** The mounts of a mountinfo, with the kernel's octal escapes undone. */
export function parseMounts(mountinfoText: string): Mount[] {
  return mountinfoText.split('\n').flatMap((line) => {
    const [, , device, root, point] = line.split(' ')
    if (device === undefined || root === undefined || point === undefined) return []
    return [{ device, root: unescape(root), point: unescape(point) }]
  })
}

const unescape = (field: string): string =>
  field.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8)))

/** The folder of which filesystem a real path is: one that a bind mount shows at two paths is the same there. Pure. */
export function placeOnDevice(
  path: string,
  mounts: readonly Mount[],
): { device: string; path: string } | null {
  let nearest: Mount | null = null
  for (const mount of mounts) {
    // Of two at one point the later one covers the other.
    if (isInside(path, mount.point) && mount.point.length >= (nearest?.point.length ?? 0)) nearest = mount
  }
  if (nearest === null) return null
  const below = path.slice(nearest.point.endsWith('/') ? nearest.point.length - 1 : nearest.point.length)
  const root = nearest.root === '/' ? '' : nearest.root
  return { device: nearest.device, path: `${root}${below}` || '/' }
}

/** Whether a bind mount shows at `inner` what lies inside `outer`: both would have the same files to write. Pure. */
export function isShownInside(inner: string, outer: string, mounts: readonly Mount[]): boolean {
  const [within, around] = [placeOnDevice(inner, mounts), placeOnDevice(outer, mounts)]
  if (within === null || around === null || within.device !== around.device) return false
  return isInside(within.path, around.path)
}

/**
 * Refuses to take away or put away a folder with anything mounted in it: that is somebody's, wherever it is from, and
 * removing the folder would remove what is mounted.
 */
export async function refuseMounts(folder: string): Promise<void> {
  const real = await realpath(folder).catch(() => null)
  if (real === null) return
  const mounts = await mountsIn(real)
  if (mounts.length === 0) return
  throw new OrangeryError(
    'workspace.mounted_inside',
    `${folder}: ${mounts.slice(0, 3).join(', ')} ${mounts.length === 1 ? 'is' : 'are'} mounted in it, and would be emptied with it`,
    {
      kind: 'busy',
      hint: `Nothing was changed. Unmount it first: umount ${mounts.at(-1)}`,
      details: { mounts },
    },
  )
}

/**
 * Refuses to take away or put away a folder of ours that somebody moved and linked back: what is behind the link is
 * his, would be emptied by git, and is not what the archive would get.
 */
export async function refuseLinked(folder: string): Promise<void> {
  const to = await readlink(folder).catch(() => null)
  if (to === null) return
  throw new OrangeryError(
    'workspace.linked_away',
    `${folder}: it is a link to ${to}, which is not ours to end`,
    {
      kind: 'busy',
      hint: `Nothing was changed. Put that folder back in place of the link, or remove the link: rm ${folder}`,
    },
  )
}

async function mountsIn(folder: string): Promise<string[]> {
  const points = parseMounts(await readMountinfo()).map(({ point }) => point)
  return [...new Set(points.filter((point) => isInside(point, folder)))]
}
