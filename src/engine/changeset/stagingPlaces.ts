import { access, constants } from 'node:fs/promises'
import { joinPath, parentOf, rootPath, type BytePath } from './bytePath.ts'
import type { Operation } from './steps.ts'

/** Roots in which contents wait below the root, and where there: a root may be closed and a folder in it not. */
export async function stagingPlaces(
  operations: readonly Operation[],
  isWritable: (folder: string) => Promise<boolean> = canWrite,
): Promise<[string, BytePath][]> {
  const places: [string, BytePath][] = []
  for (const [root, all] of Map.groupBy(operations, (operation) => operation.root)) {
    if (await isWritable(root)) continue
    const folder = commonFolder(all.map(({ path }) => parentOf(path)))
    if (folder !== rootPath) places.push([root, folder])
  }
  return places
}

/** The innermost folder that all of these lie in or are; no operation makes or removes it. */
function commonFolder([first = rootPath, ...others]: readonly BytePath[]): BytePath {
  let common = first.split('/')
  for (const other of others) {
    const names = other.split('/')
    const end = common.findIndex((name, at) => names[at] !== name)
    if (end !== -1) common = common.slice(0, end)
  }
  return common.reduce<BytePath>((path, name) => joinPath(path, name), rootPath)
}

const canWrite = (folder: string): Promise<boolean> =>
  access(folder, constants.W_OK | constants.X_OK).then(
    () => true,
    () => false,
  )
