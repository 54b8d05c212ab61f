import { mkdir } from 'node:fs/promises'
import { OrangeryError } from '../../shared/errors.ts'
import { run } from '../base/process.ts'
import type { WorkspaceDriver } from '../base/workspace.ts'

/** The arguments of `cp` for one copy. Pure. A clone never becomes a full copy behind the user's back. */
export function copyArguments(
  source: string,
  target: string,
  driver: Extract<WorkspaceDriver, 'reflink-copy' | 'plain-copy'>,
  platform: NodeJS.Platform,
): string[] {
  if (platform === 'darwin') return [driver === 'reflink-copy' ? '-cRp' : '-Rp', `${source}/.`, target]
  return ['-a', `--reflink=${driver === 'reflink-copy' ? 'always' : 'never'}`, '--', `${source}/.`, target]
}

export async function copyTree(source: string, target: string, driver: WorkspaceDriver): Promise<void> {
  if (driver !== 'reflink-copy' && driver !== 'plain-copy') throw new Error(`${driver} copies nothing`)
  await mkdir(target, { recursive: true, mode: 0o700 })
  const result = await run('cp', copyArguments(source, target, driver, process.platform))
  if (result.code === 0) return
  const said = result.stderr.toString().trim().split('\n')[0] ?? ''
  throw new OrangeryError('workspace.copy_failed', `${source}: it could not be copied (${said})`, {
    kind: 'cannot_create',
    hint: 'Use the overlay strategy, or name a folder whose files you can all read.',
    details: { stderr: result.stderr.toString().slice(0, 4096) },
  })
}
