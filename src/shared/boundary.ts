import { z } from 'zod'

export const boundaryLevels = ['readonly', 'readwrite', 'network', 'full'] as const
export type BoundaryLevel = (typeof boundaryLevels)[number]
export const boundaryLevelSchema = z.enum(boundaryLevels)

export const phases = ['plan', 'build', 'learn'] as const
export type Phase = (typeof phases)[number]
export const phaseSchema = z.enum(phases)
/** Phases that are for reading, whatever boundary the config starts them with. */
export const isReadingPhase = (phase: string | null): phase is Exclude<Phase, 'build'> =>
  phase === 'plan' || phase === 'learn'

export const accessModes = ['read-only', 'workspace-write', 'full'] as const
export type AccessMode = (typeof accessModes)[number]
export const accessModeSchema = z.enum(accessModes)

/** Where the level stays, it was hosts that were given or taken. */
export const changeInWords = (from: BoundaryLevel | null, to: BoundaryLevel, unset = '-'): string =>
  from === to ? `${to}, other hosts` : `${from ?? unset} → ${to}`

export const boundaryRank = (level: BoundaryLevel): number => boundaryLevels.indexOf(level)

/** `access_mode` is the file part of the boundary, said in seed 0's words. */
export const boundaryOfAccessMode: Readonly<Record<AccessMode, BoundaryLevel>> = {
  'read-only': 'readonly',
  'workspace-write': 'readwrite',
  full: 'full',
}

/** The file part of a boundary: `network` writes like `readwrite`. */
export const accessModeOfBoundary: Readonly<Record<BoundaryLevel, AccessMode>> = {
  readonly: 'read-only',
  readwrite: 'workspace-write',
  network: 'workspace-write',
  full: 'full',
}

/** What the legacy `--sandbox` string may say. */
export const legacyBoundaries: Readonly<Record<string, BoundaryLevel>> = {
  'read-only': 'readonly',
  readonly: 'readonly',
  'workspace-write': 'readwrite',
  readwrite: 'readwrite',
  network: 'network',
  full: 'full',
  'danger-full-access': 'full',
}

export type BoundaryChange = {
  readonly at: string
  readonly from: BoundaryLevel | null
  readonly to: BoundaryLevel
  readonly by: string
  readonly why: string
}
export const boundaryChangeSchema = z.object({
  at: z.string(),
  from: boundaryLevelSchema.nullable(),
  to: boundaryLevelSchema,
  by: z.string(),
  why: z.string(),
})
