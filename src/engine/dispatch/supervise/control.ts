import { join } from 'node:path'
import { z } from 'zod'
import type { DispatchId } from '../../../shared/ids.ts'
import { errorFromReport, reportError, type ErrorReport } from '../../../shared/errors.ts'
import { eventBodySchema } from '../../../shared/events.ts'
import { connectTo, listenOn } from './lineSocket.ts'

/** What a host may ask of a running supervisor. */
export const controlRequestSchema = z.discriminatedUnion('op', [
  z.object({ op: z.literal('kill'), by: z.string() }),
  z.object({ op: z.literal('input'), data: z.string() }),
  z.object({
    op: z.literal('resize'),
    columns: z.number().int().positive(),
    rows: z.number().int().positive(),
  }),
  /** Look at the records again: the boundary there has changed. */
  z.object({ op: z.literal('boundary'), by: z.string(), why: z.string() }),
  /** A word of the escalation pipeline for the log. */
  z.object({
    op: z.literal('tell'),
    event: eventBodySchema.refine(({ type }) => type === 'BoundaryRequested' || type === 'BoundaryDenied'),
  }),
])
export type ControlRequest = z.infer<typeof controlRequestSchema>
export type ControlHandler = (request: ControlRequest) => Promise<void> | void

type Reply = { readonly ok: true } | { readonly error: ErrorReport }

export const controlPath = (runtime: string, id: DispatchId): string => join(runtime, `${id}.sock`)

export async function listenForControl(path: string, handle: ControlHandler): Promise<Disposable> {
  const server = await listenOn(path, (channel) => {
    channel.onMessage((text) => {
      void (async () => {
        let reply: Reply
        try {
          await handle(controlRequestSchema.parse(JSON.parse(text)))
          reply = { ok: true }
        } catch (error) {
          reply = { error: reportError(error) }
        }
        channel.send(JSON.stringify(reply))
      })()
    })
  })
  return { [Symbol.dispose]: () => void server.close() }
}

/** `done`: it was heard and carried out. `absent`: nobody is there. `silent`: somebody is, and says nothing in time. */
export type Heard = 'done' | 'absent' | 'silent'

/** Asks a supervisor, and waits so long for its answer: a stopped one takes requests and never answers. */
export async function askSupervisor(
  path: string,
  request: ControlRequest,
  patienceMs: number,
): Promise<Heard> {
  const channel = await connectTo(path)
  if (channel === null) return 'absent'
  let patience: NodeJS.Timeout | undefined
  try {
    const reply = await new Promise<Reply | 'absent' | 'silent'>((resolve) => {
      patience = setTimeout(() => resolve('silent'), patienceMs)
      channel.onMessage((text) => resolve(JSON.parse(text) as Reply))
      // It died over the request, which is as good as not being there.
      channel.onClose(() => resolve('absent'))
      channel.send(JSON.stringify(request))
    })
    if (typeof reply === 'string') return reply
    if ('error' in reply) throw errorFromReport(reply.error)
    return 'done'
  } finally {
    clearTimeout(patience)
    channel.close()
  }
}
