import { mkdir, realpath } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { run } from '../../base/process.ts'
import { unescapeMount } from '../bytes.ts'
import type { SystemEntry } from '../plan/systemView.ts'

/**
 * A folder of the system that is shown through an overlay without a writable layer, which the holder mounts at
 * `place`. A read-only bind does not stop who connects to a socket of the host or writes to a pipe in it; seen
 * through an overlay they are others, at which nobody listens, whenever they come and whatever they are called.
 * (escape: system-socket, system-pipe)
 */
export type SystemLayer = { readonly path: string; readonly place: string }

// The lowest layer but one must be there: an empty folder, which is also where it is mounted. By descriptor, as the
// holder does it: options of a mount cannot carry every character a path may hold.
const tryLayer =
  '{ [ -z "$4" ] || "$1" -i -t tmpfs -o "$4" empty "$2"; } && "$1" -i -t overlay -o "lowerdir=/proc/self/fd/5:$3,userxattr" overlay "$2" 5<"$2" && [ -d "$2" ]'

/** Layers may not lie in one another: where the data folder is in the folder of the system, an empty one in memory. */
export const emptyBelow = ({ path, place }: SystemLayer): string =>
  place.startsWith(`${path}/`) ? 'mode=755,size=4k,nosuid,nodev' : ''

type Tools = { readonly unshare: string | null; readonly mount: string | null }

/** Those that can be: the kernel refuses a folder with mounts inside, which would not show. */
export async function detectSystemLayers(
  dataDir: string,
  system: readonly SystemEntry[],
  { unshare, mount }: Tools,
): Promise<readonly SystemLayer[]> {
  const folder = join(await realpath(dataDir), 'layers', 'system')
  if (unshare === null || mount === null) return []
  // /etc has a layer with files of our own.
  const paths = system.flatMap(({ kind, path }) => (kind === 'folder' && path !== '/etc' ? [path] : []))
  const layers = await Promise.all(
    paths.map(async (path): Promise<readonly SystemLayer[]> => {
      const place = join(folder, basename(path))
      const made = await mkdir(place, { recursive: true, mode: 0o755 }).then(
        () => true,
        () => false,
      )
      if (!made) return []
      const layer = { path, place }
      const args = ['sh', mount, place, path, emptyBelow(layer)]
      const tried = await run(unshare, ['-Urm', 'sh', '-c', tryLayer, ...args], { timeoutMs: 5000 }).catch(
        () => null,
      )
      return tried?.code === 0 ? [layer] : []
    }),
  )
  return layers.flat()
}

/** Without those in which the host has mounted something since. At once: an agent waits for this. */
export function presentLayers(
  layers: readonly SystemLayer[],
  /** As `/proc/self/mountinfo` has them. */
  mounts: string,
): readonly SystemLayer[] {
  const points = mounts.split('\n').map((line) => unescapeMount(line.split(' ')[4] ?? ''))
  const present = layers.filter(({ path }) => !points.some((point) => point.startsWith(`${path}/`)))
  return present.length === layers.length ? layers : present
}
