import type { MadeCommit } from '../../../shared/changeset.ts'
import type { Journal } from '../apply/journal.ts'
import { askGit } from './userGit.ts'

/** What to know of the commits of landings whose files were taken back, each of them named. */
export async function commitsLeft(done: readonly Journal[]): Promise<string[]> {
  const made = done.flatMap(({ commits = [], previous }) =>
    commits.map((commit) => ({ commit, tip: previous.commits.find(({ oid }) => oid === commit.oid) })),
  )
  const isSeveral = new Set(made.map(({ commit }) => commit.root)).size > 1
  const notes: string[] = []
  for (const { commit, tip } of made) {
    // Only of the agent's own there may be several; one of ours is not among its tips.
    const oids = tip === undefined ? [] : await commitsSince(commit, tip.base)
    notes.push(stayBehind(commit, oids.length === 0 ? [commit.oid] : oids, isSeveral))
  }
  return notes
}

/** The oldest first. */
async function commitsSince({ root, oid }: MadeCommit, base: string | null): Promise<string[]> {
  const not = base === null ? [] : [`^${base}`]
  const said = await askGit(['rev-list', '--reverse', oid, ...not, '--'], root)
  return said.split('\n').filter((line) => line !== '')
}

/**
 * A branch is the user's, and others may have built on it. How to take the commit back depends on where he is: where the
 * branch is checked out `git revert` refuses, since the files already are as it wants to make them.
 */
function stayBehind({ root, branch }: MadeCommit, oids: readonly string[], isSeveral: boolean): string {
  const names = oids.map((oid) => oid.slice(0, 12)).join(', ')
  const where = isSeveral ? `${branch} in ${root}` : branch
  return oids.length === 1
    ? `the files are as they were; the commit ${names} stays on ${where}: keep it, revert it there or drop it`
    : `the files are as they were; the commits ${names} stay on ${where}: keep them, revert them there or drop them`
}
