import { OrangeryError } from '../../shared/errors.ts'
import { run } from '../base/process.ts'

/** Makes named pipes that only this user can open. */
export async function makePipes(...paths: readonly string[]): Promise<void> {
  const made = await run('mkfifo', ['-m', '600', ...paths])
  if (made.code === 0) return
  throw new OrangeryError('door.no_pipe', `mkfifo: ${made.stderr.toString().trim()}`, {
    kind: 'cannot_create',
  })
}
