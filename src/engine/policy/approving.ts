import { realpath } from 'node:fs/promises'
import { OrangeryError } from '../../shared/errors.ts'
import type { Approving } from './answers.ts'
import { isInside } from './scope.ts'

/** An end that has passed, or that nothing would remember, is a slip that a person should hear of. */
export function refuseEnded({ scope, expires = null }: Approving, now: Date): void {
  if (expires === null) return
  const isSaved = scope === 'project' || scope === 'user'
  if (isSaved && new Date(expires) > now) return
  const why = isSaved ? 'it has passed already' : 'only what is saved to the project or the user has an end'
  throw new OrangeryError('boundary.expires', `expires ${expires}: ${why}`, {
    kind: 'input',
    hint: isSaved ? 'Name a time to come.' : 'Save it to the project or the user, or leave the end out.',
  })
}

/** The real folders an approval names. One that has nothing to do with the dispatch is a slip, too. */
export async function coveredFolders(
  { scope, covers = null }: Approving,
  roots: readonly string[],
): Promise<readonly string[] | null> {
  if (covers === null) return null
  const refuse = (folder: string, why: string, hint: string) =>
    new OrangeryError('boundary.root', `root ${folder}: ${why}`, { kind: 'input', hint })
  return Promise.all(
    covers.map(async (folder) => {
      if (scope !== 'project' && scope !== 'user')
        throw refuse(folder, 'only what is saved names folders', 'Save it to the project or the user.')
      const real = await realpath(folder).catch(() => null)
      if (real === null) throw refuse(folder, 'there is no such folder', 'Name one that is there.')
      const isOurs = roots.some((root) => isInside(real, root) || (scope === 'user' && isInside(root, real)))
      if (!isOurs) throw refuse(folder, 'it is none of this dispatch', 'Name one of its roots, or one in it.')
      return real
    }),
  )
}
