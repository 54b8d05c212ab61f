import { z } from 'zod'
import { dispatchIdSchema } from '../../shared/ids.ts'
import type { BytePath } from './bytePath.ts'

/** One side of a change: what lies at a path, named by content. Modes are permission bits (with set-id bits). */
export const sideSchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('file'),
    mode: z.number(),
    size: z.number(),
    oid: z.string(),
    sha256: z.string(),
  }),
  z.object({ kind: z.literal('symlink'), size: z.number(), oid: z.string(), sha256: z.string() }),
  z.object({ kind: z.literal('directory'), mode: z.number() }),
  /** Seen, shown and never landed: there are no bytes to review. */
  z.object({ kind: z.literal('special'), what: z.string() }),
])
export type Side = z.infer<typeof sideSchema>

const entrySchema = z.object({
  root: z.string(),
  path: z.string().transform((path) => path as BytePath),
  base: sideSchema.nullable(),
  result: sideSchema.nullable(),
  /** False where the recorded base may be newer than what the agent started from. */
  certain: z.boolean(),
  protected: z.boolean(),
  ignored: z.boolean(),
  refused: z.string().nullable(),
})
export type Entry = z.infer<typeof entrySchema>

const rootSchema = z.object({
  name: z.string(),
  path: z.string(),
  base_tree: z.string(),
  result_tree: z.string(),
})
export type ManifestRoot = z.infer<typeof rootSchema>

export const manifestSchema = z.object({
  version: z.literal(1),
  id: dispatchIdSchema,
  roots: z.array(rootSchema),
  entries: z.array(entrySchema),
  dropped: z.array(
    z.object({ root: z.string(), path: z.string(), path_b64: z.string().optional(), why: z.string() }),
  ),
  /** Commits the agent made, by branch, kept in our own repository until they are landed. */
  commits: z.array(
    z.object({
      root: z.string(),
      ref: z.string(),
      oid: z.string(),
      base: z.string().nullable(),
      /** Made in a repository in this folder below the root. */
      folder: z.string().optional(),
      /** Made in the repository of this submodule. */
      submodule: z.string().optional(),
      /** What the agent had checked out when it ended. */
      head: z.boolean().optional(),
    }),
  ),
})
export type Manifest = z.infer<typeof manifestSchema>

export function sameSide(a: Side | null, b: Side | null): boolean {
  if (a === null || b === null) return a === b
  if (a.kind === 'file' && b.kind === 'file')
    return a.sha256 === b.sha256 && a.size === b.size && a.mode === b.mode
  if (a.kind === 'symlink' && b.kind === 'symlink') return a.sha256 === b.sha256
  if (a.kind === 'directory' && b.kind === 'directory') return a.mode === b.mode
  if (a.kind === 'special' && b.kind === 'special') return a.what === b.what
  return false
}

/** Same bytes, whatever the mode. */
export function sameContent(a: Side | null, b: Side | null): boolean {
  if (a?.kind === 'file' && b?.kind === 'file') return a.sha256 === b.sha256 && a.size === b.size
  if (a?.kind === 'directory' && b?.kind === 'directory') return true
  return sameSide(a, b)
}

export function entryKey(entry: { root: string; path: string }): string {
  return `${entry.root}\0${entry.path}`
}

/** Whether an agent has left anything since that is not what it had left then. */
export function hasNewWork(before: Manifest | null, now: Manifest): boolean {
  const known = new Map((before?.entries ?? []).map((entry) => [entryKey(entry), entry]))
  const commits = new Set((before?.commits ?? []).map(({ oid }) => oid))
  return (
    now.entries.some((entry) => {
      const same = known.get(entryKey(entry))
      return same === undefined || !sameSide(same.result, entry.result)
    }) || now.commits.some(({ oid }) => !commits.has(oid))
  )
}
