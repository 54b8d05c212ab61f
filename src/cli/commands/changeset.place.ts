import type { Command } from 'commander'
import { givenPlace } from '../../shared/changeset.ts'
import { OrangeryError } from '../../shared/errors.ts'

export type PlaceOptions = {
  readonly path?: string
  readonly pathB64?: string
  readonly root?: string
}

/** How a file of a changeset is named: by its path, or by the bytes of one that is not UTF-8. */
export function addPlace(command: Command, what: string): Command {
  return command
    .option('--path <path>', what)
    .option('--path-b64 <base64>', 'the same by its bytes, as `path_b64` tells a name that is not UTF-8')
    .option('--root <folder>', 'the root the file is in, where there are several')
}

/** Only what was given: the engine takes a path that is there for one that is meant. */
export function placeOf({ path, pathB64, root }: PlaceOptions) {
  if (path !== undefined && pathB64 !== undefined)
    throw misnamed('--path and --path-b64 name the same thing twice')
  if (pathB64 !== undefined && !givenPlace.path_b64.safeParse(pathB64).success)
    throw new OrangeryError('usage.path_b64', `--path-b64: ${pathB64} is no base64`, {
      kind: 'input',
      hint: 'Copy it from `path_b64` in `orangery changeset show ID --json`, or name the file with --path.',
    })
  return {
    ...(path === undefined ? {} : { path }),
    ...(pathB64 === undefined ? {} : { path_b64: pathB64 }),
    ...(root === undefined ? {} : { root }),
  }
}

export function requiredPlace(options: PlaceOptions) {
  if (options.path === undefined && options.pathB64 === undefined) throw misnamed('--path is missing')
  return placeOf(options)
}

const misnamed = (why: string) =>
  new OrangeryError('usage.path', why, {
    kind: 'usage',
    hint: 'Name one file with --path, or with --path-b64 where its name is not UTF-8.',
  })
