import { setTimeout as sleep } from 'node:timers/promises'
import { isTerminal, type DispatchStatus } from '../../../shared/dispatch.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import { askSupervisor, controlPath, type ControlRequest } from './control.ts'
import type { Parts } from '../parts.ts'
import { recover } from '../recover/recover.ts'

const deathPatienceMs = 1_000
const startPatienceMs = 30_000
/** Narrowing files waits for their writers, and is the longest that anything asked for takes. */
const answerPatienceMs = 10_000

/**
 * Says something to the supervisor of a dispatch. One that starts takes its time to listen, and one that was just
 * killed takes a moment to be gone; one that is there and does not answer is not waited for without end.
 */
export async function speakTo(parts: Parts, id: DispatchId, request: ControlRequest): Promise<void> {
  const { store, runtime } = parts
  let before: DispatchStatus | null = null
  let deadline = 0
  do {
    const heard = await askSupervisor(controlPath(runtime, id), request, answerPatienceMs)
    if (heard === 'done') return
    if (heard === 'silent') throw silent(id)
    await recover(parts)
    const { status } = store.dispatches.get(id)
    if (isTerminal(status)) break
    if (status !== before) deadline = Date.now() + (status === 'starting' ? startPatienceMs : deathPatienceMs)
    before = status
    await sleep(50)
  } while (Date.now() < deadline)
  const code = before === 'starting' ? 'dispatch.not_started' : 'dispatch.not_running'
  throw new OrangeryError(code, `${id}: is ${store.dispatches.get(id).status}`, {
    kind: 'busy',
    hint: 'Only a running dispatch can be spoken to.',
  })
}

const silent = (id: DispatchId) =>
  new OrangeryError('dispatch.silent', `${id}: its supervisor does not answer`, {
    kind: 'busy',
    hint: 'It may be stopped: let it go on, or end it with `orangery dispatch kill`.',
  })
