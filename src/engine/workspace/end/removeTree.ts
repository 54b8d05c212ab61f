import { lstat } from 'node:fs/promises'
import { OrangeryError } from '../../../shared/errors.ts'
import { run } from '../../base/process.ts'
import { refuseMounts } from '../find/mounts.ts'

// For what is mounted while it works.
const remove = process.platform === 'darwin' ? ['-rfx'] : ['-rf', '--one-file-system']

/**
 * Removes a folder of ours whatever an agent did to it: folders without permissions (also the `work/work` of
 * an overlay), names that are not UTF-8, paths longer than the system takes. Node's own removal works by
 * decoded, absolute paths and fails on each of these; `rm` walks by descriptor. Symlinks are not followed, and what is mounted inside is never
 * reached.
 */
export async function removeTree(path: string): Promise<void> {
  if ((await lstat(path).catch(() => null)) === null) return
  await refuseMounts(path)
  const first = await run('rm', [...remove, '--', path])
  if (first.code === 0) return
  await refuseMounts(path)
  await run('chmod', ['-R', 'u+rwx', '--', path])
  const second = await run('rm', [...remove, '--', path])
  if (second.code === 0) return
  const said = second.stderr.toString().trim().split('\n').at(-1) ?? ''
  throw new OrangeryError('workspace.not_removed', `${path}: it could not be removed (${said})`, {
    hint: 'Nothing else was touched. Remove it by hand when you know why.',
  })
}
