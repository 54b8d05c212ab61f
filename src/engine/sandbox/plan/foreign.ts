import { constants, type Stats } from 'node:fs'
import { access, lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { SandboxRequest } from '../../base/sandbox.ts'
import type { HostFacts } from '../host/host.ts'

/** A short look: a tree that others own or share shows it at its top. */
const mostEntries = 64

type Identity = Pick<HostFacts, 'uid' | 'gid'>
type Found = { readonly path: string; readonly info: Stats }

/**
 * What the user may change, by his groups or as root, and no agent of his can. Inside there is one user and one group: what
 * belongs to others no overlay takes up ("Value too large for defined data type"), and root is one of the others there.
 * Who meets that inside is not told why.
 */
export async function foreignNotes(
  { workspace: { roots, strategy }, files }: SandboxRequest,
  own: Identity,
): Promise<readonly string[]> {
  if (files === 'ro') return []
  const notes = roots.map(async ({ path: root, role, access: right, mount }) => {
    if (role !== 'project' || right !== 'rw') return []
    const isDirect = strategy === 'none'
    // In place the kernel goes by all of the user's groups. A copy or a checkout was made for the sandbox, by him.
    if (isDirect ? own.uid !== 0 : strategy !== 'overlay' || mount.kind !== 'overlay') return []
    const found = await firstForeign(root, own, isDirect)
    if (found === null) return []
    const { uid, gid } = found.info
    const isOthers = uid !== own.uid
    const ways = [
      isOthers ? `run Orangery as user ${uid}` : `chgrp -R ${own.gid} '${root}'`,
      ...(isDirect ? [] : ['work on a copy (--changeset clone)']),
    ]
    return [
      `${found.path} belongs to ${isOthers ? `user ${uid}` : `group ${gid}`}, whom the sandbox does not know: the agent can change neither it nor what else is theirs. What helps: ${ways.join(', or ')}.`,
    ]
  })
  return (await Promise.all(notes)).flat()
}

async function firstForeign(root: string, own: Identity, isDirect: boolean): Promise<Found | null> {
  const names = (await readdir(root).catch(() => [])).slice(0, mostEntries)
  const paths = names.map((name) => join(root, name))
  const infos = await Promise.all(paths.map((path) => lstat(path).catch(() => null)))
  for (const [index, info] of infos.entries()) {
    const path = paths[index]
    if (path === undefined || info === null || info.isSymbolicLink()) continue
    const isOwn = info.uid === own.uid && (isDirect || info.gid === own.gid)
    if (!isOwn && (await mayWrite(path))) return { path, info }
  }
  return null
}

const mayWrite = (path: string): Promise<boolean> =>
  access(path, constants.W_OK).then(
    () => true,
    () => false,
  )
