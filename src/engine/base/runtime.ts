import { createHash, randomBytes } from 'node:crypto'
import { lstat, mkdir, readlink, rename, rm, rmdir, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { OrangeryError } from '../../shared/errors.ts'

/**
 * Sockets live in a folder of the data folder, where whatever a killed process leaves is found by the next one
 * and nothing lies about in shared places. But a socket's path ends at 108 bytes (104 on macOS), and a data
 * folder may be deep: then they live elsewhere. Which folder that is depends on the environment of whoever
 * came first, and a shell of another session has another one: the data folder holds a link to it, so that all
 * find the same.
 */
const ownDir = (dataDir: string) => join(dataDir, 'run')
const linkPath = (dataDir: string) => join(dataDir, 'runtime')

const longestName = '20260128120500-b7c9.egress'
const longestPath = 103
const fits = (folder: string) => Buffer.byteLength(join(folder, longestName)) <= longestPath

function elsewhere(dataDir: string, env: NodeJS.ProcessEnv): string[] {
  const tag = createHash('sha256').update(dataDir).digest('hex').slice(0, 12)
  const session = env['XDG_RUNTIME_DIR']
  const shared = join('/tmp', `orangery-${process.getuid?.() ?? 'user'}`, tag)
  return session?.startsWith('/') ? [join(session, 'orangery', tag), shared] : [shared]
}

async function refuseForeign(path: string): Promise<void> {
  const found = await lstat(path)
  // Under /tmp another user could have made the folder first and listen where we expect ourselves.
  // (escape: runtime-dir-squatting)
  if (!found.isDirectory() || found.uid !== process.getuid?.() || (found.mode & 0o077) !== 0) {
    throw new OrangeryError('runtime.not_ours', `${path}: it is not a private folder of ours`, {
      kind: 'cannot_create',
      hint: 'Remove it, or set XDG_RUNTIME_DIR to a folder of your own.',
    })
  }
}

async function ensureOurs(path: string): Promise<void> {
  await mkdir(path, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  await refuseForeign(path)
}

async function isUsable(path: string): Promise<true | unknown> {
  try {
    await ensureOurs(dirname(path))
    await ensureOurs(path)
    return true
  } catch (error) {
    return error
  }
}

async function linkTo(dataDir: string, target: string): Promise<void> {
  const temporary = `${linkPath(dataDir)}.${randomBytes(6).toString('hex')}`
  await symlink(target, temporary)
  await rename(temporary, linkPath(dataDir)).catch(async (error: unknown) => {
    await rm(temporary, { force: true })
    throw error
  })
}

const linkedDir = (dataDir: string) => readlink(linkPath(dataDir)).catch(() => null)

/** The runtime folder of a data folder somebody has opened before, where it is there and ours; else null. */
export async function knownRuntimeDir(dataDir: string): Promise<string | null> {
  const own = ownDir(dataDir)
  try {
    if (fits(own)) {
      await refuseForeign(own)
      return own
    }
    const linked = await linkedDir(dataDir)
    if (linked === null) return null
    await refuseForeign(dirname(linked))
    await refuseForeign(linked)
    return linked
  } catch {
    return null
  }
}

/** A folder outside the data folder goes with the last who used it. */
export async function leaveRuntimeDir(dataDir: string, path: string): Promise<void> {
  if (path === ownDir(dataDir)) return
  // What is still used is not empty, and stays.
  for (const folder of [path, dirname(path)]) await rmdir(folder).catch(() => {})
}

/** The folder our sockets live in, made where it is missing, and surely ours alone. */
export async function ensureRuntimeDir(dataDir: string, env = process.env): Promise<string> {
  if (fits(ownDir(dataDir))) {
    await ensureOurs(ownDir(dataDir))
    return ownDir(dataDir)
  }
  const known = await linkedDir(dataDir)
  let failure: unknown
  for (const path of [...(known === null ? [] : [known]), ...elsewhere(dataDir, env)]) {
    const usable = await isUsable(path)
    if (usable === true) {
      if (path !== known) await linkTo(dataDir, path)
      return path
    }
    failure = usable
  }
  if (failure instanceof OrangeryError) throw failure
  const why = (failure as NodeJS.ErrnoException).code ?? String(failure)
  throw new OrangeryError('runtime.cannot_create', `folder for sockets: cannot be made (${why})`, {
    kind: 'cannot_create',
    hint: 'Set XDG_RUNTIME_DIR to a folder of your own.',
  })
}
