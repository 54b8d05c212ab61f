import { open, opendir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { Peer } from '../../base/sandbox.ts'
import type { ProcessTree } from '../narrow/tree.ts'

/** Beyond these an agent that filled its tables to keep us busy keeps itself from being told. (escape: tell-flood) */
const mostProcesses = 64
const mostOfOne = 256
const mostDescriptors = 1024
const mostOfTable = 1024 * 1024
const pieceOfTable = 64 * 1024

/**
 * Whose connection it is, or null where that cannot be seen quickly. One look after the other, so that none of it ever takes
 * more than one of the few threads that all work on files shares; `isLate` ends it between two of them.
 */
export async function programAt(
  tree: ProcessTree,
  peer: Peer,
  isLate: () => boolean,
): Promise<number | null> {
  const inode = (await inodeOf(tree, peer, peer.protocol)) ?? (await inodeOf(tree, peer, `${peer.protocol}6`))
  if (inode === null) return null
  const wanted = `socket:[${inode}]`
  let left = mostDescriptors
  for await (const pid of tree.youngest(mostProcesses)) {
    const folder = tree.pathOf(pid, 'fd')
    const most = Math.min(left, mostOfOne)
    let looked = 0
    // Read piece by piece: the whole list is as long as the agent likes.
    for await (const name of namesIn(folder)) {
      if (isLate() || looked === most) break
      looked++
      if ((await readlink(join(folder, name)).catch(() => '')) === wanted) return pid
    }
    left -= looked
    if (left === 0 || isLate()) return null
  }
  return null
}

async function* namesIn(folder: string): AsyncGenerator<string> {
  try {
    for await (const { name } of await opendir(folder)) yield name
  } catch {
    // The process has ended.
  }
}

async function inodeOf(tree: ProcessTree, peer: Peer, table: string): Promise<string | null> {
  await using file = await open(tree.pathOf(tree.agent, `net/${table}`)).catch(() => null)
  if (file === null) return null
  const buffer = Buffer.allocUnsafe(pieceOfTable)
  let rest = ''
  for (let taken = 0; taken < mostOfTable;) {
    const { bytesRead } = await file.read(buffer).catch(() => ({ bytesRead: 0 }))
    const lines = rest + buffer.toString('latin1', 0, bytesRead)
    const found = inodeIn(lines, peer)
    if (found !== null || bytesRead === 0) return found
    rest = lines.slice(lines.lastIndexOf('\n') + 1)
    taken += bytesRead
  }
  return null
}

/** Of `/proc/PID/net/tcp` or its like, the inode of the socket between two ports. */
export function inodeIn(table: string, { protocol, port, toPort }: Peer): string | null {
  for (const line of table.split('\n')) {
    const [, local = '', remote = '', , , , , , , inode = '0'] = line.trim().split(/\s+/)
    if (portIn(local) !== port || inode === '0') continue
    const to = portIn(remote)
    // A datagram can be sent by a socket that is connected to nobody.
    if (to === toPort || (protocol === 'udp' && to === 0)) return inode
  }
  return null
}

const portIn = (address: string): number => Number.parseInt(address.split(':')[1] ?? '', 16)
