import type { MovedSubmodule } from '../../base/gitlinks.ts'
import { fromText } from '../bytePath.ts'
import type { Disk } from '../disk.ts'
import { headsOf, readBytes, type AgentRepository } from './agentRefs.ts'
import { Tree } from '../objects/tree.ts'

const largestIndex = 256 * 1024 * 1024
const gitlink = 0o160000

/** Submodules that the agent pointed elsewhere in its index, whether it committed that or not. */
export async function stagedSubmodules(
  { agentGit, realGit }: AgentRepository,
  checkouts: readonly string[],
  disk: Disk,
): Promise<ReadonlyMap<string, MovedSubmodule>> {
  await using tree = new Tree(agentGit, disk)
  await using real = new Tree(realGit, disk)
  const own = (await headsOf(tree, real, checkouts)).find(({ name }) => name === 'HEAD')
  const path = fromText((own?.path ?? 'HEAD').replace(/HEAD$/, 'index'))
  const theirs = await readBytes(tree, path, largestIndex)
  const ours = theirs === null ? null : await readBytes(real, path, largestIndex)
  const moved = new Map<string, MovedSubmodule>()
  if (theirs === null || ours === null) return moved
  const [after, before] = [gitlinksIn(theirs), gitlinksIn(ours)]
  if (after === null || before === null) return moved
  for (const [name, oid] of after)
    if (before.get(name) !== oid) moved.set(name, { to: oid, wasThere: before.has(name) })
  for (const name of before.keys()) if (!after.has(name)) moved.set(name, { to: null, wasThere: true })
  return moved
}

/**
 * The submodules of an index, by path. Read here and not by git: it is the agent's own bytes. Null where it is none
 * that we know.
 */
export function gitlinksIn(index: Buffer, oidBytes = 20): ReadonlyMap<string, string> | null {
  if (index.length < 12 || index.toString('latin1', 0, 4) !== 'DIRC') return null
  const version = index.readUInt32BE(4)
  if (version < 2 || version > 4) return null
  const found = new Map<string, string>()
  let at = 12
  let name = ''
  for (let count = index.readUInt32BE(8); count > 0; count -= 1) {
    const flagsAt = at + 40 + oidBytes
    if (flagsAt + 4 > index.length) return null
    const isExtended = version > 2 && (index.readUInt16BE(flagsAt) & 0x4000) !== 0
    let from = flagsAt + (isExtended ? 4 : 2)
    let kept = ''
    if (version === 4) {
      const strip = varint(index, from)
      if (strip === null) return null
      from = strip.end
      kept = name.slice(0, Math.max(0, name.length - strip.value))
    }
    const end = index.indexOf(0, from)
    if (end === -1) return null
    name = kept + index.toString('latin1', from, end)
    if (index.readUInt32BE(at + 24) === gitlink)
      found.set(Buffer.from(name, 'latin1').toString(), index.toString('hex', at + 40, at + 40 + oidBytes))
    at = version === 4 ? end + 1 : at + Math.ceil((end - at + 1) / 8) * 8
  }
  return found
}

/** How much of the name before an entry shares: as git writes offsets. */
function varint(bytes: Buffer, from: number): { readonly value: number; readonly end: number } | null {
  let value = -1
  for (let at = from; at < Math.min(bytes.length, from + 5); at += 1) {
    const byte = bytes.readUInt8(at)
    value = (value + 1) * 128 + (byte & 0x7f)
    if (byte < 0x80) return { value, end: at + 1 }
  }
  return null
}
