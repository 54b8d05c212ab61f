import type { Readable } from 'node:stream'
import { reportError, type ErrorReport } from '../../shared/errors.ts'
import { openParts } from './openParts.ts'
import { terminalIo } from './agentIo.ts'
import type { Job } from './job.ts'
import { supervise } from './supervise.ts'

/** What a host sends to a supervisor, as one line of JSON on its stdin. */
export type Order = { readonly dataDir: string; readonly configDir: string; readonly job: Job }
/** What it answers, as one line: it has taken the job over, or why not. */
export type Answer = { readonly taken: true } | { readonly error: ErrorReport }

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
export async function superviseFromPipe(source: Readable, answer: (line: string) => void): Promise<void> {
  const reply = (message: Answer) => answer(JSON.stringify(message))
  const line = await readLine(source)
  if (line === null) return
  const order = JSON.parse(line) as Order
  const stop = new AbortController()
  process.on('SIGTERM', () => stop.abort())
  try {
    await using parts = await openParts(order)
    using io = terminalIo(order.job.size)
    reply({ taken: true })
    await supervise(parts, order.job, { io, signal: stop.signal })
  } catch (error) {
    reply({ error: reportError(error) })
  }
}
