import { z } from 'zod'
import { accessModeSchema, boundaryChangeSchema } from './boundary.ts'
import { sandboxLevelSchema } from './level.ts'
import { rootModesSchema } from './spec.ts'

export const violationSchema = z.object({
  kind: z.string(),
  at: z.string(),
  detail: z.string(),
  /** False where the violation was inferred from what a program printed. */
  certain: z.boolean(),
})
export type Violation = z.infer<typeof violationSchema>

export const probeCheckSchema = z.object({
  name: z.string(),
  declared: z.string(),
  actual: z.string(),
  ok: z.boolean(),
})
export const declaredEqualsActualSchema = z.object({ ok: z.boolean(), checks: z.array(probeCheckSchema) })
export type ProbeCheck = z.infer<typeof probeCheckSchema>
export type DeclaredEqualsActual = z.infer<typeof declaredEqualsActualSchema>

export const networkUseSchema = z.object({
  /** `bytes` is null where the broker vanished before it could say. */
  allowed: z.array(
    z.object({
      host: z.string(),
      connections: z.number(),
      bytes: z.number().nullable(),
      /** How often nobody answered there; not in records of earlier releases. */
      unreachable: z.number().optional(),
    }),
  ),
  denied: z.array(z.object({ host: z.string(), connections: z.number(), why: z.string() })),
})
export type NetworkUse = z.infer<typeof networkUseSchema>

/** Bounds that really held: the request's, or its parent's where it said nothing. Only those there were. */
export const ceilingSchema = z.looseObject({
  tools_allowed: z.array(z.string()).optional(),
  tools_denied: z.array(z.string()).optional(),
  max_turns: z.number().optional(),
  max_commands: z.number().optional(),
  on_limit: z.string().optional(),
  hide: z.array(z.string()).optional(),
  limits: z.record(z.string(), z.unknown()).optional(),
})
export type Ceiling = z.infer<typeof ceilingSchema>

/** By what each limit that was asked for was held: those of the operating system, our own look at the disk, our timer. */
export const limitsBySchema = z.object({
  memory_mb: z.string().optional(),
  cpus: z.string().optional(),
  pids: z.string().optional(),
  disk_mb: z.string().optional(),
  timeout_s: z.string().optional(),
})
export type LimitsBy = Readonly<z.infer<typeof limitsBySchema>>

/** What really happened; written once, with the terminal status. */
export const sandboxEffectiveSchema = z.looseObject({
  tools_used: z.array(z.string()),
  access_mode: accessModeSchema,
  turns_used: z.number(),
  commands_used: z.number(),
  violations: z.array(violationSchema),
  level: sandboxLevelSchema,
  driver: z.string(),
  workspace: z.string(),
  /** Which rung of the ladder carried it; not in records of earlier releases. */
  workspace_driver: z.string().optional(),
  /** Of roots that were not `rw`, where there were any. */
  root_modes: rootModesSchema.optional(),
  ceiling: ceilingSchema.optional(),
  /** Only where limits were asked for; not in records of earlier releases. */
  limits_by: limitsBySchema.optional(),
  boundary_history: z.array(boundaryChangeSchema),
  network: networkUseSchema,
  /** Null: nobody measured it, as of an agent whose supervisor vanished. */
  resources: z.object({
    wall_ms: z.number(),
    cpu_ms: z.number().nullable(),
    max_rss_mb: z.number().nullable(),
    disk_mb: z.number().nullable(),
  }),
  declared_equals_actual: declaredEqualsActualSchema,
})
export type SandboxEffective = z.infer<typeof sandboxEffectiveSchema>
