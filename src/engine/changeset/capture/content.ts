import { createHash, hash } from 'node:crypto'
import { OrangeryError } from '../../../shared/errors.ts'
import type { ThroughHolder } from '../../base/throughHolder.ts'
import { nameOf, parentOf, toText, type BytePath } from '../bytePath.ts'
import { errorCode, readFlags, type DiskStat } from '../disk.ts'
import type { Side } from '../manifest.ts'
import type { PackWriter } from '../objects/packWriter.ts'
import { isMissing, type QuickTree } from './quickTree.ts'
import { streamUnreadable } from './unreadable.ts'
import type { Tree } from '../objects/tree.ts'

const smallFile = 1024 * 1024
const chunkSize = 1024 * 1024
/** A file that claims more than this cannot be reviewed, and one that is mostly hole need not be read. */
const largestFile = 64 * 1024 ** 3
const largestHole = 4 * 1024 ** 3

export const permissionBits = 0o7777n

/** Puts what lies at a path into the store and says what it is. Null when it vanished meanwhile. */
export async function storeSide(
  tree: Tree,
  path: BytePath,
  stat: DiskStat,
  writer: PackWriter,
  through: ThroughHolder | undefined,
): Promise<Side | null> {
  const mode = Number(stat.mode & permissionBits)
  if (stat.isDirectory()) return { kind: 'directory', mode }
  if (stat.isSymbolicLink()) {
    const target = await tree.within(parentOf(path), (folder) => tree.disk.readlink(folder.at(nameOf(path))))
    const sha256 = createHash('sha256').update(target).digest('hex')
    return { kind: 'symlink', size: target.length, sha256, oid: await writer.add('blob', target) }
  }
  if (!stat.isFile()) return { kind: 'special', what: specialName(stat) }
  if (stat.size > largestFile || (stat.size > largestHole && stat.blocks * 512n < stat.size / 2n)) {
    return { kind: 'special', what: `file of ${stat.size} bytes, most of them a hole` }
  }
  const chunks = contentOf(tree, path, through)
  if (stat.size <= smallFile) return { kind: 'file', mode, ...(await storeSmall(chunks, writer)) }
  const digest = createHash('sha256')
  async function* hashed() {
    for await (const chunk of chunks) {
      digest.update(chunk)
      yield chunk
    }
  }
  const size = Number(stat.size)
  const oid = await writer.addStream(size, hashed())
  if (oid === null) throw new Unstable(path)
  return { kind: 'file', mode, size, oid, sha256: digest.digest('hex') }
}

/** The same for what is small, by direct calls; undefined where that is not the way. */
export async function storeQuickly(
  tree: QuickTree,
  path: BytePath,
  stat: DiskStat,
  writer: PackWriter,
): Promise<Side | null | undefined> {
  const mode = Number(stat.mode & permissionBits)
  if (stat.isDirectory()) return { kind: 'directory', mode }
  if (!stat.isSymbolicLink() && (!stat.isFile() || stat.size > smallFile)) return undefined
  let content: Buffer | null
  try {
    content = stat.isSymbolicLink() ? tree.readlink(path) : tree.read(path)
  } catch (error) {
    if (isMissing(error) || errorCode(error) === 'EINVAL') return null
    if (errorCode(error) === 'EACCES') return undefined
    throw error
  }
  if (content === null) return undefined
  const named = {
    size: content.length,
    sha256: hash('sha256', content),
    oid: await writer.add('blob', content),
  }
  return stat.isSymbolicLink() ? { kind: 'symlink', ...named } : { kind: 'file', mode, ...named }
}

/** Thrown for a large file that changed its length while it was read. */
export class Unstable extends OrangeryError {
  constructor(path: BytePath) {
    super('changeset.unstable', `cannot capture ${toText(path)}: it changed while it was read`, {
      kind: 'busy',
    })
  }
}

async function storeSmall(chunks: AsyncIterable<Buffer>, writer: PackWriter) {
  const parts: Buffer[] = []
  for await (const chunk of chunks) parts.push(chunk)
  const content = Buffer.concat(parts)
  const sha256 = createHash('sha256').update(content).digest('hex')
  return { size: content.length, sha256, oid: await writer.add('blob', content) }
}

/** The bytes of a regular file, read by descriptor; through the holder where the agent took our right to read. */
export async function* contentOf(
  tree: Tree,
  path: BytePath,
  through?: ThroughHolder,
): AsyncGenerator<Buffer> {
  const { disk } = tree
  let handle
  try {
    handle = await tree.openFile(path, readFlags)
  } catch (error) {
    if (errorCode(error) !== 'EACCES') throw error
    yield* streamUnreadable(tree.root, path, through)
    return
  }
  try {
    const stat = await disk.stat(handle)
    if (!stat.isFile()) throw new Unstable(path)
    for (;;) {
      const buffer = Buffer.allocUnsafe(Math.min(chunkSize, Number(stat.size) + 1))
      const count = await disk.read(handle, buffer)
      if (count === 0) return
      yield buffer.subarray(0, count)
    }
  } finally {
    await disk.close(handle)
  }
}

function specialName(stat: DiskStat): string {
  if (stat.isFIFO()) return 'named pipe'
  if (stat.isSocket()) return 'socket'
  return 'device node'
}
