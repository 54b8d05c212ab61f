import type { InvocationMeta } from '../../shared/invocation.ts'

export {
  invocationMetaSchema,
  worktreeMetaSchema,
  type InvocationEntry,
  type InvocationMeta,
  type WorktreeEntry,
  type WorktreeMeta,
} from '../../shared/invocation.ts'

/** What may change after creation; identity, paths and base never do. */
export type InvocationPatch = Partial<
  Pick<
    InvocationMeta,
    'commits_refused' | 'status' | 'runner' | 'mode' | 'notes' | 'outcome' | 'archive' | 'roots' | 'driver'
  >
>
