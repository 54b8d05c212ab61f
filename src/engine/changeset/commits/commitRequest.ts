import type { z } from 'zod'
import type { commitRequestSchema } from '../../../shared/changeset.ts'

export type CommitRequest = z.output<typeof commitRequestSchema>

/** As whom the caller's environment has git commit, be the engine in his process or in another. */
export function identityOf({ identity = {} }: Pick<CommitRequest, 'identity'>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(identity).flatMap(([name, value]) =>
      value === undefined ? [] : [[`GIT_${name.toUpperCase()}`, value]],
    ),
  )
}
