import { z } from 'zod'
import { dispatchRowSchema } from './dispatch.ts'

const bytes = z.number().int().nonnegative()

/** What one dispatch costs, in bytes the disk gives to it. */
export const dispatchDiskUseSchema = z.object({
  id: z.string(),
  /** What the agent wrote and has not been disposed of. */
  workspace: bytes,
  /** What was captured of it: both sides of every change. What an earlier one had captured already is that one's. */
  captures: bytes,
  /** The event log, with what crashes tore off it. */
  events: bytes,
  /** Terminal output. */
  output: bytes,
  /** Records, review drafts, archives. */
  other: bytes,
  total: bytes,
  /** Folders the agent closed to us: what is in them is not counted. */
  unreadable: z.number().int().nonnegative(),
})
export type DispatchDiskUse = z.infer<typeof dispatchDiskUseSchema>

export const removedLogSchema = z.object({
  id: z.string(),
  log: z.enum(['events', 'output']),
  bytes,
  removed_at: z.string(),
  why: z.string(),
})
export type RemovedLog = z.infer<typeof removedLogSchema>

export const diskUseSchema = z.object({
  total: bytes,
  /** Logs of all dispatches together, and the size the user set for them; null: they are all kept. */
  logs: bytes,
  logs_kept: bytes.nullable(),
  shared: z.object({
    /** The database with its log. */
    records: bytes,
    backups: bytes,
    /** Captured trees that are no one dispatch's. */
    objects: bytes,
    other: bytes,
  }),
  dispatches: z.array(
    dispatchDiskUseSchema.extend({
      name: dispatchRowSchema.shape.name,
      status: dispatchRowSchema.shape.status.nullable(),
      removed: z.array(removedLogSchema),
    }),
  ),
})
export type DiskUse = z.infer<typeof diskUseSchema>
