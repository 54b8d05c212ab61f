import { z } from 'zod'

/**
 * What travels between a client and a host, one JSON text per message. A stream's items come in numbered
 * batches; the client acknowledges each, and the host keeps only a few unacknowledged: a slow window slows
 * the stream, it does not pile up memory.
 */
const id = z.number().int().nonnegative()

export const clientMessageSchema = z.union([
  z.strictObject({ id, call: z.string(), input: z.unknown().optional() }),
  z.strictObject({ id, open: z.string(), input: z.unknown().optional() }),
  z.strictObject({ id, ack: z.number().int() }),
  z.strictObject({ id, cancel: z.literal(true) }),
])
export type ClientMessage = z.infer<typeof clientMessageSchema>

const errorReportSchema = z.object({
  code: z.string(),
  kind: z.enum(['usage', 'input', 'not_found', 'preflight', 'internal', 'cannot_create', 'busy', 'refused']),
  message: z.string(),
  hint: z.string().optional(),
  details: z.unknown().optional(),
})

export const hostMessageSchema = z.union([
  z.strictObject({ id, error: errorReportSchema }),
  z.strictObject({ id, seq: z.number().int(), items: z.array(z.unknown()) }),
  z.strictObject({ id, end: z.literal(true) }),
  z.strictObject({ id, ok: z.unknown() }),
])
export type HostMessage = z.infer<typeof hostMessageSchema>

/** Carries texts in order between two processes; every transport is one of these. */
export interface Channel {
  send(text: string): void
  onMessage(listener: (text: string) => void): void
  onClose(listener: () => void): void
  close(): void
}

/** Batches a stream may be ahead of its reader. */
export const streamWindow = 8
