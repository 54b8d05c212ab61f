import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { makeScratch, sparePlaces } from '../../base/ownedScratch.ts'
import { run } from '../../base/process.ts'
import { nameServer } from '../../base/sandbox.ts'
import { pathBytes } from '../bytes.ts'

/** Where the agent's own home is inside. It is no host path: nothing of the user's home is near it. */
export const agentHome = '/home/agent'
export const agentUid = 1000

/** Something of the system that other users of the host may not read. */
export type SecretPath = {
  readonly path: string
  readonly kind: 'file' | 'folder'
  /** A mount that was not looked through: any of it may be. */
  readonly isMount?: true
}

export type GivenFile = 'passwd' | 'group' | 'resolv.conf'

export const givenFiles: Readonly<Record<GivenFile, string>> = {
  passwd: [
    'root:x:0:0:root:/root:/usr/sbin/nologin',
    `agent:x:${agentUid}:${agentUid}:agent:${agentHome}:/bin/sh`,
    'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin',
    '',
  ].join('\n'),
  group: ['root:x:0:', `agent:x:${agentUid}:`, 'nogroup:x:65534:', ''].join('\n'),
  // Patient, for a question that is held while a person decides.
  'resolv.conf': [`nameserver ${nameServer}`, 'options timeout:5 attempts:4', ''].join('\n'),
}

export const ownEtc: readonly (readonly [name: GivenFile, why: string])[] = [
  ['passwd', 'a user of its own'],
  ['group', 'a user of its own'],
  ['resolv.conf', 'no name server but the relay'],
]

/**
 * A folder that is laid over the host's /etc as the upper of two read-only layers: our own files, and in the
 * place of each secret something nobody can open. One mount instead of one for each of them; and a name that
 * is covered stays so when the file under it is replaced while the agent runs. (escape: etc-replaced)
 */
export type EtcLayer = { readonly folder: string; readonly hidden: readonly SecretPath[] }

const etc = '/etc'

/** Folders on the way to a secret show what lies in them below, with the modes of this layer: the real ones. */
async function makeParents(folder: string, path: string): Promise<void> {
  const real = dirname(path)
  if (real === etc) return
  await makeParents(folder, real)
  const place = join(folder, relative(etc, real))
  if (existsSync(pathBytes(place))) return
  await mkdir(pathBytes(place))
  const info = await stat(pathBytes(real)).catch(() => null)
  if (info === null) return
  if (process.getuid?.() === 0) await chown(pathBytes(place), info.uid, info.gid)
  await chmod(pathBytes(place), info.mode & 0o7777)
}

async function build(folder: string, hidden: readonly SecretPath[]): Promise<void> {
  await mkdir(folder)
  await chmod(folder, 0o755)
  for (const [name, content] of Object.entries(givenFiles)) await writeFile(join(folder, name), content)
  // Something to mount the sandbox's own on.
  await writeFile(join(folder, 'hosts'), '')
  for (const { path, kind } of hidden) {
    await makeParents(folder, path)
    const place = join(folder, relative(etc, path))
    await (kind === 'folder' ? mkdir(pathBytes(place)) : writeFile(pathBytes(place), ''))
    await chmod(pathBytes(place), 0)
  }
}

/** Makes the layer in one step, so that two at once, or one that is killed, leave a whole one. */
async function buildAtomically(folder: string, hidden: readonly SecretPath[], spares: string): Promise<void> {
  await mkdir(dirname(folder), { recursive: true, mode: 0o700 })
  await using scratch = await makeScratch(spares)
  const temporary = join(scratch.folder, 'etc')
  try {
    await build(temporary, hidden)
    await rename(temporary, folder)
  } catch (error) {
    if (!existsSync(folder)) throw error
  }
}

/** What a mount of the host lies over would show from under it; containers have these three, which are ours anyway. */
const replacedByContainers = new Set(['/etc/hosts', '/etc/hostname', '/etc/resolv.conf'])

async function hasMountsInside(): Promise<boolean> {
  const table = await readFile('/proc/self/mountinfo', 'utf8')
  const points = table.split('\n').map((line) => line.split(' ')[4] ?? '')
  return points.some((point) => point.startsWith('/etc/') && !replacedByContainers.has(point))
}

const tryLayer =
  '"$1" -i -t overlay -o "lowerdir=/proc/self/fd/4:/etc,userxattr" overlay /etc 4<"$2" && read -r first </etc/passwd'

/** Null where it cannot be mounted: then each file is covered by a mount of its own. */
export async function detectEtcLayer(
  dataDir: string,
  secrets: readonly SecretPath[],
  tools: { readonly unshare: string | null; readonly mount: string | null },
): Promise<EtcLayer | null> {
  const hidden = secrets.filter(({ path }) => path.startsWith('/etc/'))
  const content = JSON.stringify([givenFiles, hidden])
  const hash = createHash('sha256').update(content).digest('hex').slice(0, 16)
  const folder = join(dataDir, 'layers', `etc-${hash}`)
  if (tools.unshare === null || tools.mount === null) return null
  try {
    if (await hasMountsInside()) return null
    if (!existsSync(folder)) await buildAtomically(folder, hidden, sparePlaces({ dataDir }))
    const tried = await run(
      tools.unshare,
      ['-Urm', 'sh', '-c', `${tryLayer} && [ -n "$first" ]`, 'sh', tools.mount, folder],
      { timeoutMs: 5000 },
    )
    return tried.code === 0 ? { folder, hidden } : null
  } catch {
    return null
  }
}

/** The layer, or where the data folder was emptied since it was made, one in that folder of the sandbox's own. */
export async function ensureLayer(layer: EtcLayer, ownFolder: string): Promise<string> {
  if (existsSync(layer.folder)) return layer.folder
  const folder = join(ownFolder, 'etc')
  await buildAtomically(folder, layer.hidden, ownFolder)
  return folder
}
