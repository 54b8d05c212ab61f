import { git, type GitOptions } from './git.ts'

/** Submodules that commits point elsewhere than before, by path: what they point at now, null where it is gone. */
export async function movedSubmodules(
  from: string | null,
  to: string,
  where: GitOptions,
): Promise<ReadonlyMap<string, string | null>> {
  const moved = new Map<string, string | null>()
  if (from === null) return moved
  const args = ['diff-tree', '-r', '--raw', '-z', '--no-renames', '--no-abbrev', from, to]
  const fields = (await git(args, where)).toString().split('\0')
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const [before = '', after = '', , commit = ''] = (fields[at] ?? '').split(' ')
    if (after === gitlink) moved.set(fields[at + 1] ?? '', commit)
    else if (before === `:${gitlink}`) moved.set(fields[at + 1] ?? '', null)
  }
  return moved
}
const gitlink = '160000'

/** Which commit of a submodule a project uses is for its user to say: nobody has reviewed what is in another one. */
export function submoduleStays(to: string | null, how: 'committed' | 'staged' = 'committed'): string {
  const who = how === 'staged' ? 'the agent staged' : "the agent's commits"
  if (to === null) {
    const what = how === 'staged' ? `${who} the removal of` : `${who} remove`
    return `${what} this submodule; it stays as it is until you do so yourself: git rm`
  }
  const what = how === 'staged' ? `${who} this submodule at` : `${who} point this submodule at`
  return `${what} ${to.slice(0, 12)}; it stays where it is until you move it: git checkout there, then git add`
}
