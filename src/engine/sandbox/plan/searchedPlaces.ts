import { readFileSync } from 'node:fs'
import { pathText } from '../bytes.ts'

const softwareFolders: readonly string[] = ['/opt', '/usr/local']

/** Where what other users may not read is looked for. Whoever looks stays on one file system, so each mount is a place. */
export type SearchedPlaces = {
  readonly etc: readonly string[]
  readonly software: readonly string[]
  /** Mounts among them that are not looked through. */
  readonly unsearched: readonly string[]
}

// Files of this machine. Who looks through those of another waits for it, a network's may not even answer; and the kernel's
// own (proc) are endless.
const searchable = new Set(
  'ext2 ext3 ext4 xfs btrfs bcachefs f2fs jfs nilfs2 reiserfs zfs tmpfs ramfs overlay squashfs erofs iso9660 udf vfat exfat ntfs3'.split(
    ' ',
  ),
)

/** A secret of a container (Kubernetes, Docker) is a mount in /etc or /opt. (escape: mounted-secret) */
export function searchedPlaces(mountinfo = readFileSync('/proc/self/mountinfo', 'latin1')): SearchedPlaces {
  const mounts = mountinfo.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ')
    const point = before.split(' ')[4]
    return point === undefined ? [] : [{ path: unescaped(point), type: after.split(' ')[0] ?? '' }]
  })
  // The last one at a point is the one that is seen there.
  const types = new Map(mounts.map(({ path, type }) => [path, type]))
  // One that is no text cannot be given to who looks.
  const isSearchable = (path: string) => searchable.has(types.get(path) ?? '') && path.isWellFormed()
  const within = (folders: readonly string[]) =>
    [...types.keys()].filter((path) => folders.some((folder) => path.startsWith(`${folder}/`))).sort()
  const [inEtc, inSoftware] = [within(['/etc']), within(softwareFolders)]
  return {
    etc: ['/etc', ...inEtc.filter(isSearchable)],
    software: [...softwareFolders, ...inSoftware.filter(isSearchable)],
    unsearched: [...inEtc, ...inSoftware].filter((path) => !isSearchable(path)),
  }
}

/** Blanks, newlines and backslashes are octal there. */
const unescaped = (latin: string): string => {
  const bytes = latin.replaceAll(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  )
  return pathText(Buffer.from(bytes, 'latin1'))
}
