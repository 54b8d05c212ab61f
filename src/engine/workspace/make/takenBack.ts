import { OrangeryError } from '../../../shared/errors.ts'
import type { RepoLock } from '../../base/lock.ts'

const takenBack = (): OrangeryError =>
  new OrangeryError('workspace.taken_back', 'creation: it was taken back before it was done', {
    kind: 'busy',
    hint: 'Nothing of it is left. Ask for it again.',
  })

export function refuseTakenBack(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw takenBack()
}

/** The project's lock; whoever takes the request back does not wait for it any longer. */
export async function acquireUnlessTakenBack(
  lock: RepoLock,
  name: string,
  signal: AbortSignal | undefined,
): Promise<AsyncDisposable> {
  refuseTakenBack(signal)
  return lock.acquire(name, signal === undefined ? {} : { signal }).catch((error: unknown) => {
    throw signal?.aborted === true ? takenBack() : error
  })
}
