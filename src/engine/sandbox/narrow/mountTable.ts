import { unescapeMount } from '../bytes.ts'

export type InnerMount = {
  readonly id: string
  readonly device: string
  readonly point: string
  readonly options: readonly string[]
}

/**
 * What a folder inside is known by, whatever it is called: an agent moves the folders above a root in its private /tmp,
 * and the root with them. (escape: narrow-moved-root)
 */
export type Place = { readonly devices: ReadonlySet<string>; readonly ids: ReadonlySet<string> }

/** Every mount of a mountinfo. */
export function parseMounts(mountinfo: string): readonly InnerMount[] {
  return mountinfo.split('\n').flatMap((line) => {
    const [id = '', , device = '', , point, options = ''] = line.split(' ')
    return point === undefined
      ? []
      : [{ id, device, point: unescapeMount(point), options: options.split(',') }]
  })
}

/** Of mounts, those of a place: a root that is named through a symlink is at its real path too. */
export const mountsOf = (mounts: readonly InnerMount[], { devices, ids }: Place): readonly InnerMount[] =>
  mounts.filter(({ id, device }) => devices.has(device) || ids.has(id))

export const isWritable = ({ options }: InnerMount) => options.includes('rw')
