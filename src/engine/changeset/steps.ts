import { z } from 'zod'
import { depthOf, type BytePath } from './bytePath.ts'
import { sideSchema, type Side } from './manifest.ts'

/** One path on its way from what the user has to what will be there. */
export type Step = {
  readonly root: string
  readonly path: BytePath
  readonly before: Side | null
  readonly after: Side | null
  /** Device, inode, size and time of what was read as `before`; null for nothing or a folder. */
  readonly identity: string | null
}

/**
 * What is done to the files, in order. `before` and `after` say how to tell whether it has been done; the
 * reverse order undoes it.
 */
export const operationSchema = z.object({
  kind: z.enum(['remove', 'rmdir', 'mkdir', 'put', 'chmod']),
  root: z.string(),
  path: z.string().transform((path) => path as BytePath),
  before: sideSchema.nullable(),
  after: sideSchema.nullable(),
  identity: z.string().nullable(),
})
export type Operation = z.infer<typeof operationSchema>

const order = ['remove', 'rmdir', 'mkdir', 'put', 'chmod'] as const

/** Removals from the deepest up, folders from the top down, then contents, then modes of folders. */
export function orderSteps(steps: readonly Step[]): readonly Operation[] {
  const operations: Operation[] = []
  for (const { root, path, before, after, identity } of steps) {
    const add = (kind: Operation['kind'], from: Side | null, to: Side | null) =>
      operations.push({
        kind,
        root,
        path,
        before: from,
        after: to,
        identity: from === null ? null : identity,
      })
    const isFolder = { before: before?.kind === 'directory', after: after?.kind === 'directory' }
    if (isFolder.before && isFolder.after) add('chmod', before, after)
    else if (isFolder.before) {
      add('rmdir', before, null)
      if (after !== null) add('put', null, after)
    } else if (isFolder.after) {
      if (before !== null) add('remove', before, null)
      add('mkdir', null, after)
    } else if (after === null) add('remove', before, null)
    else add('put', before, after)
  }
  return operations.toSorted((a, b) => {
    const byKind = order.indexOf(a.kind) - order.indexOf(b.kind)
    if (byKind !== 0) return byKind
    const upwards = a.kind === 'remove' || a.kind === 'rmdir'
    const byDepth = depthOf(a.path) - depthOf(b.path)
    if (byDepth !== 0) return upwards ? -byDepth : byDepth
    return a.path < b.path ? -1 : 1
  })
}
