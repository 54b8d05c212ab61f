import { join } from 'node:path'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import type { AgentCommit, InvocationEntry } from '../../../shared/invocation.ts'
import type { ExactText } from '../../base/exactText.ts'
import { alsoObjectsOf } from '../../base/git.ts'
import { assertOwnGit } from '../../base/ownGit.ts'
import { isLeft, type PlacedCommit } from '../../changeset/index.ts'
import {
  listCommits,
  noCommit,
  onNoBranch,
  readLog,
  readPatch,
  showCommit,
  startsWith,
  unlandedCommits,
} from '../../workspace/index.ts'
import type { Parts } from '../parts.ts'

type Entry = Pick<InvocationEntry, 'id' | 'repo_id' | 'meta'>
type Found = {
  readonly commit: AgentCommit
  readonly where: Parameters<typeof readPatch>[0]
  /** The user's repository that it belongs to. */
  readonly realGit: string
}
type Missing = { readonly path: string; readonly why: string }

/** Whether a commit is in the repository of the first root, whose commits are handed over for a landing. */
export const isOfFirst = (
  { root, folder, submodule }: Omit<PlacedCommit, 'realGit'>,
  commonDir: string | null,
): boolean =>
  folder === undefined && submodule === undefined && [root, join(root, '.git')].includes(commonDir ?? '')

const repositoryOf = ({ root, folder, submodule, realGit }: PlacedCommit): string =>
  submodule === undefined ? join(root, folder ?? '') : realGit

/** What an agent committed in other roots than the first, and in repositories below any of them. */
async function readOthers(parts: Parts, { id, repo_id, meta }: Entry) {
  const found: Found[] = []
  const missing: Missing[] = []
  if (parts.store.changesets.find(id as DispatchId) === null) return { found, missing }
  // A review that cannot be read says so itself.
  const placed = await parts.changesets.commits(id as DispatchId).catch(() => [])
  const others = placed.filter((each) => !isOfFirst(each, meta?.common_dir ?? null))
  for (const [repository, commits] of Map.groupBy(others, repositoryOf)) {
    try {
      const [{ realGit }] = commits as [PlacedCommit]
      await assertOwnGit(realGit)
      const where = { gitDir: parts.layout.objects(repo_id as RepoId), env: alsoObjectsOf(realGit) }
      const tips = commits.map(({ ref, oid }) => ({ commit: oid, isLeft: isLeft(ref) }))
      const bases = new Set(commits.flatMap(({ base }) => base ?? []))
      const log = await readLog(where, tips, [...bases])
      found.push(...log.map((commit) => ({ commit: { ...commit, repository }, where, realGit })))
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      missing.push({ path: repository, why: `its commits cannot be read: ${why}` })
    }
  }
  return { found, missing }
}

/** The commits of an agent in all of its roots: those of the first one first, in each the oldest first. */
export async function allCommits(
  parts: Parts,
  entry: Entry,
): Promise<{ commits: AgentCommit[]; missing: Missing[] }> {
  const { found, missing } = await readOthers(parts, entry)
  // Without its record nobody knows which root was the first, and those of all are among the others.
  const first = entry.meta === null && found.length > 0 ? [] : await commitsOfFirst(parts, entry)
  return { commits: [...first, ...found.map(({ commit }) => commit)], missing }
}

/** Those of them that no branch of the user's has: what leaves his sight with a sandbox that is given up. */
export async function allUnlanded(parts: Parts, entry: Entry): Promise<AgentCommit[]> {
  const { id, repo_id, meta } = entry
  const whole = meta ?? { base_commit: null, common_dir: null }
  // A repository may be gone; what is in the others is told all the same.
  const first = await unlandedCommits(parts.layout, repo_id as RepoId, id as DispatchId, whole).catch(
    () => [],
  )
  const unlanded = new Map(first.map((each) => [each.commit, each]))
  const { found } = await readOthers(parts, entry)
  for (const [realGit, others] of Map.groupBy(found, (each) => each.realGit)) {
    const [{ where }] = others as [Found]
    const made = others.map(({ commit }) => commit)
    for (const each of await onNoBranch(where, realGit, made).catch(() => made))
      if (!unlanded.has(each.commit)) unlanded.set(each.commit, each)
  }
  return [...unlanded.values()]
}

const commitsOfFirst = ({ layout }: Parts, { id, repo_id, meta }: Entry) =>
  listCommits(layout, repo_id as RepoId, id as DispatchId, meta?.base_commit ?? null)

/** One commit as a patch, whichever root it was made in. */
export async function showAnyCommit(parts: Parts, entry: Entry, start: string): Promise<ExactText> {
  const isMeant = startsWith(start)
  const { found } = await readOthers(parts, entry)
  // Two clones of one repository may both have it.
  const others = new Map(
    found.filter(({ commit }) => isMeant(commit)).map((each) => [each.commit.commit, each]),
  )
  const [only, ...more] = others.values()
  const { id, repo_id, meta } = entry
  if (only === undefined)
    return showCommit(parts.layout, repo_id as RepoId, id as DispatchId, start, meta?.base_commit ?? null)
  const isElsewhere = (await commitsOfFirst(parts, entry)).some(
    (each) => isMeant(each) && each.commit !== only.commit.commit,
  )
  if (more.length === 0 && !isElsewhere) return readPatch(only.where, only.commit.commit)
  throw noCommit(id, start, 'made more than one that starts so')
}
