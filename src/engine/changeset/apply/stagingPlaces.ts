import { access, constants } from 'node:fs/promises'
import { fromText, joinPath, parentOf, rootPath, toBytes, toText, type BytePath } from '../bytePath.ts'
import { errorCode } from '../disk.ts'
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

/** The first folder in which something changes and that may not be written; what cannot be looked at is not told. */
export async function closedFolder(
  operations: readonly Operation[],
  refusalOf: (folder: Buffer) => Promise<string> = howRefused,
): Promise<string | null> {
  const seen = new Set<string>()
  for (const { root, path } of operations) {
    const folder = parentOf(joinPath(fromText(root), path))
    if (seen.has(folder)) continue
    seen.add(folder)
    if (closed.has(await refusalOf(toBytes(folder)))) return toText(folder)
  }
  return null
}

/** The first file that not even its owner may replace: read-only ones are replaced like any other. */
export async function immutableFile(
  operations: readonly Operation[],
  refusalOf: (file: Buffer) => Promise<string> = (file) =>
    access(file, constants.W_OK).then(() => '', errorCode),
): Promise<string | null> {
  for (const { root, path, before } of operations) {
    const file = joinPath(fromText(root), path)
    if (before?.kind === 'file' && (await refusalOf(toBytes(file))) === 'EPERM') return toText(file)
  }
  return null
}
const closed = new Set(['EACCES', 'EPERM', 'EROFS'])
const howRefused = (folder: Buffer): Promise<string> =>
  access(folder, constants.W_OK | constants.X_OK).then(() => '', errorCode)

const canWrite = (folder: string): Promise<boolean> =>
  access(folder, constants.W_OK | constants.X_OK).then(
    () => true,
    () => false,
  )
