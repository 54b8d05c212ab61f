import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { copyFile, mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { OrangeryError } from '../../../shared/errors.ts'
import { run, type RunResult } from '../../base/process.ts'
import type { WorkspaceDriver } from '../../base/workspace.ts'

/** The arguments of `cp` for one copy. Pure. A clone never becomes a full copy behind the user's back. */
export function copyArguments(
  source: string,
  target: string,
  driver: Extract<WorkspaceDriver, 'reflink-copy' | 'plain-copy'>,
  platform: NodeJS.Platform,
): string[] {
  if (platform === 'darwin') return [driver === 'reflink-copy' ? '-cRp' : '-Rp', `${source}/.`, target]
  const how = `--reflink=${driver === 'reflink-copy' ? 'always' : 'never'}`
  // The copy is ours: what belongs to others no agent could change, whom a sandbox knows only as nobody.
  return ['-a', '--no-preserve=ownership', how, '--', `${source}/.`, target]
}

const mostTries = 8

/** Whether files of these folders can be cloned into ours, by trying: the name of a filesystem proves nothing. */
export async function canClone(folders: readonly string[], into: string): Promise<boolean> {
  for (const folder of folders) if (!(await clones(folder, into))) return false
  return folders.length > 0
}

async function clones(folder: string, into: string): Promise<boolean> {
  const target = join(into, `.clone-${randomBytes(6).toString('hex')}`)
  const own = `${target}-own`
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(folder, entry.name))
  try {
    if (files.length === 0) {
      if ((await stat(folder)).dev !== (await stat(into)).dev) return false
      await writeFile(own, 'clone', { mode: 0o600, flag: 'wx' })
    }
    for (const file of [...files.slice(0, mostTries), own]) {
      const tried = await copyFile(
        file,
        target,
        constants.COPYFILE_FICLONE_FORCE | constants.COPYFILE_EXCL,
      ).then(
        () => 'cloned',
        ({ code }: NodeJS.ErrnoException) => code,
      )
      if (tried === 'cloned') return true
      // One that we may not read proves nothing either.
      if (tried !== 'EACCES' && tried !== 'EPERM') return false
    }
    return false
  } finally {
    await Promise.all([target, own].map((path) => rm(path, { force: true })))
  }
}

/** Longer than the clock of file times takes to tick. */
const tickMs = 12

/** A moment, by the clock of the filesystem itself, that is later than every copy and no later than whatever follows. */
export async function afterCopies(folder: string): Promise<number> {
  await sleep(tickMs)
  const stamp = join(folder, '.copied')
  await writeFile(stamp, '', { mode: 0o600 })
  const { ctimeMs } = await stat(stamp)
  await rm(stamp)
  return Math.floor(ctimeMs)
}

export async function copyTree(source: string, target: string, driver: WorkspaceDriver): Promise<void> {
  if (driver !== 'reflink-copy' && driver !== 'plain-copy') throw new Error(`${driver} copies nothing`)
  await mkdir(target, { recursive: true, mode: 0o700 })
  const result = await runAttached('cp', copyArguments(source, target, driver, process.platform))
  if (result.code === 0) return
  const said = result.stderr.toString().trim().split('\n')[0] ?? ''
  throw new OrangeryError('workspace.copy_failed', `${source}: it could not be copied (${said})`, {
    kind: 'cannot_create',
    hint: 'Use the overlay strategy, or name a folder whose files you can all read.',
    details: { stderr: result.stderr.toString().slice(0, 4096) },
  })
}

/** A copy that nobody waits for any more would go on filling the disk: it ends with us, by `kill -9` too. */
async function runAttached(file: string, args: readonly string[]): Promise<RunResult> {
  if (process.platform !== 'linux') return run(file, args)
  return run('setpriv', ['--pdeathsig', 'KILL', '--', file, ...args]).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
      return run(file, args)
    },
  )
}
