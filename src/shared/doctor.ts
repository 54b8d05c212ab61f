import { z } from 'zod'
import { orphanSchema } from './invocation.ts'
import { sandboxLevelSchema } from './level.ts'

/** One thing that was looked at: what it is, whether it is as it must be, and what helps where it is not. */
export const checkResultSchema = z.object({
  name: z.string(),
  ok: z.boolean(),
  detail: z.string(),
  /** The one command or step that helps. */
  fix: z.string().nullable(),
})
export type CheckResult = z.infer<typeof checkResultSchema>

export const preflightReportSchema = z.object({
  ok: z.boolean(),
  checks: z.array(checkResultSchema),
  /** The sandbox as it would be made, one fact a line; not there where it cannot be made. */
  plan: z.string().optional(),
})
export type PreflightReport = z.infer<typeof preflightReportSchema>

export const levelReportSchema = z.object({
  level: sandboxLevelSchema,
  name: z.string(),
  available: z.boolean(),
  driver: z.string().nullable(),
  workspace: z.string().nullable(),
  checks: z.array(checkResultSchema),
})
export type LevelReport = z.infer<typeof levelReportSchema>

export const doctorReportSchema = z.object({
  platform: z.string(),
  kernel: z.string(),
  data_dir: z.string(),
  levels: z.array(levelReportSchema),
  limits: z.object({
    memory: z.string(),
    cpus: z.string(),
    pids: z.string(),
    disk: z.string(),
    time: z.string(),
  }),
  /** Only where the records cannot be opened: why, and what helps. */
  records: checkResultSchema.optional(),
  /** What is on disk, in repositories or in the database and belongs to nothing. */
  orphans: z.array(orphanSchema).optional(),
})
export type DoctorReport = z.infer<typeof doctorReportSchema>
