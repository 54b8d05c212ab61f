import { z } from 'zod'
import { dispatchIdSchema } from './ids.ts'

export const changesetStates = ['active', 'review', 'applied', 'rejected', 'abandoned'] as const
export type ChangesetState = (typeof changesetStates)[number]
export const changesetStateSchema = z.enum(changesetStates)

export const verdicts = ['approve', 'reject', 'rework'] as const
export type Verdict = (typeof verdicts)[number]
export const verdictSchema = z.enum(verdicts)
/** Null: nobody has decided yet. */
export const decisionSchema = verdictSchema.nullable()
export type Decision = z.infer<typeof decisionSchema>

export const changeKinds = ['added', 'modified', 'deleted', 'renamed', 'mode', 'type'] as const
export type ChangeKind = (typeof changeKinds)[number]

/** A path as answers carry it: with its bytes where it is not UTF-8, which `path` then shows with replacement characters. */
const namedPath = { path: z.string(), path_b64: z.string().optional() }
const placedPath = { root: z.string(), ...namedPath }

/** `more`: how many files both touch besides those named. */
const overlapSchema = z.object({
  id: dispatchIdSchema,
  paths: z.array(z.string()),
  more: z.number().optional(),
})
export type Overlap = z.infer<typeof overlapSchema>
/** A path as a caller names it: by its text, or by its bytes, which win. */
export const givenPlace = {
  root: z.string().optional(),
  path: z.string().optional(),
  path_b64: z.base64().optional(),
}
export const isGiven = ({ path, path_b64 }: { path?: string | undefined; path_b64?: string | undefined }) =>
  path !== undefined || path_b64 !== undefined
export const notGiven = 'path or path_b64 is missing'

/** What wrote it, as far as events and time tell. */
export const provenanceSchema = z.object({
  /** Whose event log it is: a changeset has a dispatch for each turn. */
  dispatch: dispatchIdSchema.optional(),
  /** Position in the dispatch's event log. */
  seq: z.number(),
  at: z.string(),
  title: z.string(),
  /** False: it fits in time, but something else may have written it. */
  certain: z.boolean(),
})
export type Provenance = z.infer<typeof provenanceSchema>

export const commentSchema = z.object({
  hunk: z.string().nullable(),
  text: z.string(),
  by: z.string(),
  at: z.string(),
  /** The content it was written on has changed since. */
  outdated: z.boolean(),
})
export type ReviewComment = z.infer<typeof commentSchema>

export const hunkSchema = z.object({
  /** Names the hunk by its content, so that it survives the agent's next turn. */
  id: z.string(),
  header: z.string(),
  decision: decisionSchema,
  insertions: z.number(),
  deletions: z.number(),
  provenance: provenanceSchema.nullable().optional(),
})
export type Hunk = z.infer<typeof hunkSchema>

export const changedFileSchema = z.object({
  ...placedPath,
  from_path: z.string().optional(),
  from_path_b64: z.string().optional(),
  /** A new file with the content that this other file of the root had before. */
  copy_of: z.string().optional(),
  copy_of_b64: z.string().optional(),
  /** How much of it is the original's, in percent: below 100 it was edited. */
  copy_similarity: z.number().optional(),
  /** Names exactly this change of it: kinds, modes, names and bytes of both sides. */
  anchor: z.string().optional(),
  change: z.enum(changeKinds),
  kind: z.enum(['file', 'symlink', 'directory']),
  binary: z.boolean(),
  mode_before: z.string().nullable(),
  mode_after: z.string().nullable(),
  sha256_before: z.string().nullable(),
  sha256_after: z.string().nullable(),
  size_before: z.number().nullable(),
  size_after: z.number().nullable(),
  insertions: z.number(),
  deletions: z.number(),
  protected: z.boolean(),
  ignored: z.boolean(),
  /** Why this entry can never land (device node, link leaving the roots, …), or null. */
  refused: z.string().nullable(),
  hunks: z.array(hunkSchema),
  decision: decisionSchema,
  /** It was decided on before and has changed since. */
  reopened: z.boolean().optional(),
  /** It was deleted after a change of it was rejected, and nobody has decided on that: "approve all" leaves it out. */
  asked_again: z.boolean().optional(),
  comments: z.array(commentSchema).optional(),
  provenance: provenanceSchema.nullable().optional(),
})
export type ChangedFile = z.infer<typeof changedFileSchema>

export const transitionSchema = z.object({
  at: z.string(),
  from: changesetStateSchema.nullable(),
  to: changesetStateSchema,
  by: z.string(),
  why: z.string(),
})
export type Transition = z.infer<typeof transitionSchema>

export const changesetSchema = z.object({
  id: dispatchIdSchema,
  state: changesetStateSchema,
  roots: z.array(z.string()),
  /** Names exactly what is shown; `apply` refuses when it has moved on. */
  revision: z.string(),
  files: z.array(changedFileSchema),
  insertions: z.number(),
  deletions: z.number(),
  /** Changes under `.git` and other entries that were seen and dropped, each with a reason. */
  dropped: z.array(z.object({ ...placedPath, why: z.string() })),
  transitions: z.array(transitionSchema),
  /** Counts from 1; a rework is the next turn. */
  turn: z.number().optional(),
  /** The dispatches that worked on it, turn by turn; the first has the changeset's id. */
  dispatches: z.array(dispatchIdSchema).optional(),
  /** Why a human is asked to look, or null. */
  escalated: z.string().nullable().optional(),
  /** Where an apply or undo that a crash had cut off stopped, since the path is neither old nor new; or null. */
  stopped: z.object(placedPath).nullable().optional(),
  /** The applies that have landed something of it and were not undone, the oldest first. */
  landed: z.array(z.object({ at: z.string(), by: z.string() })).optional(),
  /** Other open changesets that touch the same files, whatever roots they have them under. */
  overlaps: z.array(overlapSchema).optional(),
  /** Commits the agent made; they are imported to `refs/orangery/<id>/` when the changeset is applied. */
  commits: z
    .array(
      z.object({
        root: z.string(),
        ref: z.string(),
        oid: z.string(),
        /** Made in a repository in this folder below the root, and imported there. */
        folder: z.string().optional(),
        /** Made in this submodule, and imported to its own repository. */
        submodule: z.string().optional(),
      }),
    )
    .optional(),
})
export type Changeset = z.infer<typeof changesetSchema>

/** A path that may have changed, told without reading a file: one that was only touched is among them. */
export const glimpseSchema = z.object({
  ...placedPath,
  change: z.enum(changeKinds),
  size_before: z.number().nullable(),
  size_after: z.number().nullable(),
})
export type Glimpse = z.infer<typeof glimpseSchema>

const landingPathSchema = z.object(placedPath)
/** The root where there are several. */
const skippedPathSchema = z.object({ root: z.string().optional(), ...namedPath, why: z.string() })
const nameInGit = z.string().optional()
/** A commit that an apply also makes. */
export const commitRequestSchema = z.object({
  branch: z.string().min(1),
  message: z.string().optional(),
  /** Takes over the commits the agent made instead of making one. */
  own: z.boolean().default(false),
  /** Runs the user's own hooks, which need the branch to be the one that is checked out. */
  hooks: z.boolean().default(false),
  /** Has the user's own program sign it. */
  sign: z.boolean().optional(),
  /** What the caller's environment says of who commits: `GIT_AUTHOR_NAME` and so on. */
  identity: z
    .object({
      author_name: nameInGit,
      author_email: nameInGit,
      committer_name: nameInGit,
      committer_email: nameInGit,
    })
    .optional(),
})
export const madeCommitSchema = z.object({ root: z.string(), branch: z.string(), oid: z.string() })
export type MadeCommit = z.infer<typeof madeCommitSchema>
export const applyResultSchema = z.object({
  id: dispatchIdSchema,
  state: changesetStateSchema,
  applied: z.array(landingPathSchema),
  skipped: z.array(skippedPathSchema),
  /** Files in which the user's own changes and the agent's were woven together. */
  merged: z.array(z.string()).optional(),
  /** The commit that was made of it, where one was asked for. */
  commit: madeCommitSchema.optional(),
  /** All of them, where roots in several repositories got one each. */
  commits: z.array(madeCommitSchema).optional(),
  /** Nothing landed yet: it will when these agents, which run on the same folders, have ended. */
  waits_for: z.array(dispatchIdSchema).optional(),
  /** Something beside the files that did not work out. */
  notes: z.array(z.string()).optional(),
})
export type ApplyResult = z.infer<typeof applyResultSchema>

export const choices = ['mine', 'theirs', 'both', 'edit'] as const
export const conflictSchema = z.object({
  ...placedPath,
  why: z.string(),
  /** Names both sides as they are now; a choice made for others does not count. */
  anchor: z.string(),
  choices: z.array(z.enum(choices)),
})
export const conflictsSchema = z.object({
  revision: z.string(),
  conflicts: z.array(conflictSchema),
  /** Conflicts that are settled, and how: a later choice takes the place of this one. */
  settled: z.array(conflictSchema.extend({ choice: z.enum(choices), by: z.string(), at: z.string() })),
  merged: z.array(z.string()),
  /** What would land, conflicts apart. */
  lands: z.array(landingPathSchema),
  /** What would stay behind, and why. */
  skipped: z.array(skippedPathSchema),
})
export type Conflicts = z.infer<typeof conflictsSchema>

export const diffScopes = ['all', 'review', 'turn'] as const
export type DiffScope = (typeof diffScopes)[number]
export const exportFormats = ['patch', 'tar', 'json'] as const
export type ExportFormat = (typeof exportFormats)[number]

/** Whether what a review tells of a `.git` is that commits in there stayed in it. */
export const isUnimported = ({ why }: { readonly why: string }): boolean =>
  /\b(?:were not|could not be) imported\b/.test(why)
