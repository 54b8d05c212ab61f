import { join } from 'node:path'
import { shellLine } from '../../shared/shellLine.ts'
import { git, type GitOptions } from './git.ts'

/** What a submodule points at now, null where it is gone, and whether it was one before. */
export type MovedSubmodule = { readonly to: string | null; readonly wasThere: boolean }

/** Submodules that commits point elsewhere than before, by path. */
export async function movedSubmodules(
  from: string | null,
  to: string,
  where: GitOptions,
): Promise<ReadonlyMap<string, MovedSubmodule>> {
  const moved = new Map<string, MovedSubmodule>()
  if (from === null) return moved
  const args = ['diff-tree', '-r', '--raw', '-z', '--no-renames', '--no-abbrev', from, to]
  const fields = (await git(args, where)).toString().split('\0')
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const [before = '', after = '', , commit = ''] = (fields[at] ?? '').split(' ')
    const wasThere = before === `:${gitlink}`
    if (after === gitlink) moved.set(fields[at + 1] ?? '', { to: commit, wasThere })
    else if (wasThere) moved.set(fields[at + 1] ?? '', { to: null, wasThere })
  }
  return moved
}
const gitlink = '160000'

/** Which commit of a submodule a project uses is for its user to say: nobody has reviewed what is in another one. */
export function submoduleStays(
  path: string,
  { to, wasThere }: MovedSubmodule,
  /** The user's checkout that has the submodule; null where it is not known. */
  checkout: string | null,
  how: 'committed' | 'staged' = 'committed',
): string {
  const who = how === 'staged' ? 'the agent staged' : "the agent's commits"
  if (to === null) {
    const what = how === 'staged' ? `${who} the removal of` : `${who} remove`
    return `${what} this submodule; it stays as it is until you do so yourself: git rm`
  }
  const what = how === 'staged' ? `${who} this submodule at` : `${who} point this submodule at`
  const told = `${what} ${to.slice(0, 12)}; it stays where it is until you move it`
  return checkout === null || !wasThere
    ? told
    : `${told}, which you can once this has landed: ${goingAlong(checkout, path, to)}`
}

/** Whether what a review leaves behind is where a submodule points. */
export const isOfSubmodule = ({ why }: { readonly why: string }): boolean => why.includes(' this submodule')

/**
 * Takes a submodule to a commit whose files have landed in it already: a checkout would refuse for these. No file is
 * touched, and no branch of the submodule moves. It names the submodule's own `.git`: where that is not set up, git
 * would find the project's and move that one to a commit of the agent's.
 */
function goingAlong(checkout: string, path: string, to: string): string {
  const inside = ['git', '-C', join(checkout, path), '--git-dir=.git']
  const steps = [
    [...inside, 'checkout', '-q', '--detach'],
    [...inside, 'reset', '-q', to],
    ['git', '-C', checkout, 'add', '--', path],
  ]
  return steps.map(shellLine).join(' && ')
}
