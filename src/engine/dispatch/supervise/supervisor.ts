import type { Readable } from 'node:stream'
import { reportError, type ErrorReport } from '../../../shared/errors.ts'
import { pipeIo } from './agentIo.ts'
import { openParts } from '../openParts.ts'
import { leaveCaretaker } from '../recover/caretaker.ts'
import type { Job } from '../prepare/job.ts'
import type { Places } from '../parts.ts'
import { ownStartTicks } from '../../base/processes.ts'
import { isSpokenTo } from './speech.ts'
import { supervise } from './supervise.ts'
import { WarmStart } from '../warm/warmStart.ts'

/** What a host sends to a supervisor, as one line of JSON on its stdin. */
export type Order = { readonly job: Job }
/** What it answers, as one line: it has taken the job over, or why not. */
export type Answer = { readonly taken: true } | { readonly error: ErrorReport }

/** A start makes many small file calls side by side; with the usual four threads they would queue. */
export const supervisorThreads = '12'

async function readLine(source: Readable): Promise<string | null> {
  let text = ''
  for await (const chunk of source) {
    text += String(chunk)
    const end = text.indexOf('\n')
    if (end !== -1) return text.slice(0, end)
  }
  return null
}

/** The life of a supervisor process: wait for an order (a spare may wait long), lead the dispatch, end. */
export async function superviseFromPipe(
  places: Places,
  source: Readable,
  answer: (line: string) => void,
): Promise<void> {
  const reply = (message: Answer) => answer(JSON.stringify(message))
  const opening = openParts(places)
  using _caretaker = leaveCaretaker(places)
  await using ending = new AsyncDisposableStack()
  // A spare that was never needed has opened them too. Who waits for them is told below where they do not open.
  ending.defer(() =>
    opening.then(
      (parts) => parts[Symbol.asyncDispose](),
      () => {},
    ),
  )
  opening.catch(() => {})
  await using warm = new WarmStart(opening)
  const line = await readLine(source)
  if (line === null) return
  const { job } = JSON.parse(line) as Order
  const stop = new AbortController()
  process.on('SIGTERM', () => stop.abort('SIGTERM'))
  try {
    const parts = await opening
    using ways = new DisposableStack()
    // Read by now, and not meant for an agent that inherits our environment.
    if (process.env['UV_THREADPOOL_SIZE'] === supervisorThreads) delete process.env['UV_THREADPOOL_SIZE']
    const { io, ...spares } = isSpokenTo(job)
      ? { io: ways.use(await pipeIo(parts.runtime)), ...warm.takeWithoutHolder() }
      : warm.take(job.size)
    const supervisorStartTicks = await ownStartTicks()
    // Refused where it was given up meanwhile: then nothing must start.
    parts.store.dispatches.takeOver(job.id, { supervisorPid: process.pid, supervisorStartTicks })
    reply({ taken: true })
    await supervise(parts, job, { io, spares, signal: stop.signal })
  } catch (error) {
    reply({ error: reportError(error) })
  }
}
