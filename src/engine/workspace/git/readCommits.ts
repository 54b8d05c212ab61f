import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import type { AgentCommit, InvocationMeta } from '../../../shared/invocation.ts'
import { exactText, type ExactText } from '../../base/exactText.ts'
import { git, type GitOptions } from '../../base/git.ts'
import type { Layout } from '../../base/paths.ts'
import { allRefs, collectedPrefix, commitsDir, listCollected, without } from './commits.ts'

/** The commits of an agent, oldest first: what a reviewer reads one by one. */
export async function listCommits(
  layout: Layout,
  repoId: RepoId,
  id: DispatchId,
  base: string | null,
): Promise<AgentCommit[]> {
  const refs = await listCollected(layout, repoId, id)
  if (refs.length === 0) return []
  const isLeft = ({ ref }: { ref: string }) => ref.startsWith(`${collectedPrefix(id)}left/`)
  const named = refs.map((each) => ({ commit: each.commit, isLeft: isLeft(each) }))
  return readLog({ gitDir: commitsDir(layout, repoId) }, named, base === null ? [] : [base])
}

/** Where a commit is, and whether nothing but us names it. */
export type Tip = { readonly commit: string; readonly isLeft: boolean }

/** All commits that lead from the bases to these, oldest first. */
export async function readLog(
  where: Pick<GitOptions, 'gitDir' | 'env'>,
  tips: readonly Tip[],
  bases: readonly string[],
): Promise<AgentCommit[]> {
  const left = tips.filter(({ isLeft }) => isLeft).map(({ commit }) => commit)
  const onRefs = without(tips.filter(({ isLeft }) => !isLeft).map(({ commit }) => commit))
  const onNone = left.length === 0 ? new Set<string>() : await walk(where, [...left, ...onRefs])
  const format = ['%H', '%P', '%an <%ae>', '%aI', '%s'].join('%x00')
  const text = await git(
    [
      'log',
      '--reverse',
      '--topo-order',
      `--format=${format}%x01`,
      '--end-of-options',
      ...tips.map(({ commit }) => commit),
      ...without(bases),
    ],
    where,
  )
  return text
    .toString()
    .split('\u0001\n')
    .filter((entry) => entry !== '')
    .map((entry) => {
      const [commit = '', parents = '', author = '', date = '', subject = ''] = entry.split('\0')
      const found = { commit, parents: parents.split(' ').filter(Boolean), author, date, subject }
      return onNone.has(commit) ? { ...found, on_no_branch: true } : found
    })
}

/** Those of them that are on no branch of the user's repository: a merge may have taken them there. */
export async function unlandedCommits(
  layout: Layout,
  repoId: RepoId,
  id: DispatchId,
  { base_commit: base, common_dir: commonDir }: Pick<InvocationMeta, 'base_commit' | 'common_dir'>,
): Promise<AgentCommit[]> {
  const made = await listCommits(layout, repoId, id, base)
  return commonDir === null ? made : onNoBranch({ gitDir: commitsDir(layout, repoId) }, commonDir, made)
}

/** Those that no branch of a repository has, but for the branches of sandboxes. */
export async function onNoBranch(
  where: Pick<GitOptions, 'gitDir' | 'env'>,
  commonDir: string,
  made: readonly AgentCommit[],
): Promise<AgentCommit[]> {
  if (made.length === 0) return []
  const refs = await allRefs(commonDir).catch(() => [])
  const tips = refs
    .filter(({ ref }) => ref.startsWith('refs/heads/') && !ref.startsWith('refs/heads/agency/sandbox-'))
    .map(({ commit }) => commit)
  const left = await walk(where, [...made.map(({ commit }) => commit), ...without(tips)])
  return made.filter(({ commit }) => left.has(commit))
}

async function walk(
  where: Pick<GitOptions, 'gitDir' | 'env'>,
  revisions: readonly string[],
): Promise<Set<string>> {
  const input = `${revisions.join('\n')}\n`
  const listed = await git(['rev-list', '--stdin'], { ...where, input })
  return new Set(listed.toString().split('\n').filter(Boolean))
}

/** One commit as a patch. */
export async function showCommit(
  layout: Layout,
  repoId: RepoId,
  id: DispatchId,
  start: string,
  base: string | null,
): Promise<ExactText> {
  const [found, ...others] = (await listCommits(layout, repoId, id, base)).filter(startsWith(start))
  if (found === undefined) throw noCommit(id, start, 'made no such commit')
  if (others.length > 0) throw noCommit(id, start, 'made more than one that starts so')
  return readPatch({ gitDir: commitsDir(layout, repoId) }, found.commit)
}

/** Whether an id or the start of one stands for a commit. */
export const startsWith =
  (start: string) =>
  ({ commit }: AgentCommit): boolean =>
    /^[0-9a-f]{4,64}$/.test(start) && commit.startsWith(start)

export const noCommit = (id: string, start: string, why: string): OrangeryError =>
  new OrangeryError('workspace.no_commit', `commit ${start}: ${id} ${why}`, {
    kind: 'not_found',
    hint: `\`orangery agent show ${id}\` lists its commits.`,
  })

/** A commit as a patch; of a merge one for each parent. */
export async function readPatch(
  where: Pick<GitOptions, 'gitDir' | 'env'>,
  found: string,
): Promise<ExactText> {
  const format = ['-p', '-M', '--root', '--no-ext-diff', '--no-textconv', '--no-commit-id', '--binary']
  const patch = (...what: string[]) => git(['diff-tree', ...format, ...what], where)
  const parents = (await git(['rev-list', '--parents', '-n1', found], where)).toString().trim().split(' ')
  if (parents.length <= 2) return exactText(await patch(found))
  // Git shows nothing of a merge by itself, and a merge can bring content that none of its parents has.
  const parts: Buffer[] = []
  for (const parent of parents.slice(1)) {
    const title = `${parts.length === 0 ? '' : '\n'}Merge, compared with its parent ${parent}\n`
    parts.push(Buffer.from(title), await patch(parent, found))
  }
  return exactText(Buffer.concat(parts))
}
