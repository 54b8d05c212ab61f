import { z } from 'zod'
import { depthOf, type BytePath } from '../bytePath.ts'
import { sideSchema, type Side } from '../manifest.ts'

const ownerSchema = z.object({ uid: z.number(), gid: z.number() })
export type Owner = z.infer<typeof ownerSchema>

/** One path on its way from what the user has to what will be there. */
export type Step = {
  readonly root: string
  readonly path: BytePath
  readonly before: Side | null
  readonly after: Side | null
  /** Device, inode, size and time of what was read as `before`; null for nothing or a folder. */
  readonly identity: string | null
  /** Whose `after` was, where it comes back. */
  readonly owner?: Owner | undefined
}

/**
 * What is done to the files, in order. `before` and `after` say how to tell whether it has been done; the
 * reverse order undoes it.
 */
export const operationSchema = z.object({
  kind: z.enum(['open', 'remove', 'rmdir', 'mkdir', 'put', 'chmod']),
  root: z.string(),
  path: z.string().transform((path) => path as BytePath),
  before: sideSchema.nullable(),
  after: sideSchema.nullable(),
  identity: z.string().nullable(),
  /** Whose it is or was, known where we may give files away. */
  owner: ownerSchema.optional(),
  /** The user keeps what he has here: neither done nor undone. */
  left: z.boolean().optional(),
})
export type Operation = z.infer<typeof operationSchema>

const order = ['open', 'remove', 'rmdir', 'mkdir', 'put', 'chmod'] as const
/** What we need of a folder while we work in it. */
const workable = 0o700

/**
 * Folders that lock us out are opened first; then removals from the deepest up, folders from the top down,
 * contents, and modes of folders from the deepest up, since one may lock us out again.
 */
export function orderSteps(steps: readonly Step[]): readonly Operation[] {
  const operations: Operation[] = []
  for (const { root, path, before, after, identity, owner } of steps) {
    const add = (kind: Operation['kind'], from: Side | null, to: Side | null) =>
      operations.push({
        kind,
        root,
        path,
        before: from,
        after: to,
        identity: from === null ? null : identity,
        ...(owner === undefined ? {} : { owner }),
      })
    let from = before
    if (before?.kind === 'directory') {
      from = opened(before)
      if (from !== before) add('open', before, from)
    }
    if (after?.kind === 'directory') {
      const made = opened(after)
      if (from?.kind !== 'directory') {
        if (from !== null) add('remove', from, null)
        add('mkdir', null, made)
        if (made !== after) add('chmod', made, after)
      } else add('chmod', from, after)
    } else if (from?.kind === 'directory') {
      add('rmdir', from, null)
      if (after !== null) add('put', null, after)
    } else if (after === null) add('remove', from, null)
    else add('put', from, after)
  }
  return operations.toSorted((a, b) => {
    const byKind = order.indexOf(a.kind) - order.indexOf(b.kind)
    if (byKind !== 0) return byKind
    const upwards = a.kind === 'remove' || a.kind === 'rmdir' || a.kind === 'chmod'
    const byDepth = depthOf(a.path) - depthOf(b.path)
    if (byDepth !== 0) return upwards ? -byDepth : byDepth
    return a.path < b.path ? -1 : 1
  })
}

function opened<T extends Side & { kind: 'directory' }>(side: T): T {
  return (side.mode & workable) === workable ? side : { ...side, mode: side.mode | workable }
}
