import { lstat, readdir } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import { shellLine } from '../../../shared/shellLine.ts'
import { findGit } from '../../base/findGit.ts'
import type { InvocationMeta } from '../../base/invocation.ts'
import { realFolder } from '../../base/paths.ts'
import { linksOf } from './gitSide.ts'
import { isInside } from '../find/pathSafety.ts'
import { openRepository } from './repository.ts'

type Checkout = { readonly path: string; readonly commonDir: string }

/**
 * Refuses to take away or put away a tree of ours with a worktree of the user's in it, whichever repository that is of: git
 * would know it no more, the archive's commit would not hold a file of it, and in the end it would be gone.
 */
export async function refuseWorktreesIn(tree: string, commonDir: string | null): Promise<void> {
  const own = realFolder(tree)
  // By the repository's own list also those in folders that nobody can look into.
  const listed = commonDir === null ? [] : await listedIn(commonDir, own)
  const found = new Map([...listed, ...(await checkoutsIn(own))].map((each) => [each.path, each]))
  refuse(tree, [...found.values()])
}

/** The same of the tree of a worktree sandbox. */
export const refuseWorktreesOf = async (meta: InvocationMeta): Promise<void> => {
  if (meta.strategy === 'worktree') await refuseWorktreesIn(meta.sandbox_path, meta.common_dir)
}

/** And of what went to the archive before anybody asked: git still names the place that it had. */
export async function refuseArchivedWorktrees(
  { origin, common_dir: commonDir }: { readonly origin: string; readonly common_dir: string | null },
  content: string,
): Promise<void> {
  if (commonDir === null) return
  const moved = (await listedIn(commonDir, origin)).map(({ path }) => join(content, relative(origin, path)))
  const standing: Checkout[] = []
  for (const path of moved) if (await hasGit(path)) standing.push({ path, commonDir })
  refuse(content, [...standing, ...(await listedIn(commonDir, content))])
}

function refuse(folder: string, inside: readonly Checkout[]): void {
  const [first] = inside
  if (first === undefined) return
  const paths = inside.map(({ path }) => path)
  const [are, them] = inside.length === 1 ? ['is a git worktree', 'it'] : ['are git worktrees', 'them']
  const move = shellLine(['git', '-C', first.commonDir, 'worktree', 'move', first.path])
  throw new OrangeryError(
    'workspace.worktree_inside',
    `${folder}: ${paths.slice(0, 3).join(', ')} ${are} of yours in it, and would go with it`,
    {
      kind: 'busy',
      hint: `Nothing was changed. Move ${them} first (${move} ELSEWHERE), or remove ${them} with \`git worktree remove\`.`,
      details: { worktrees: paths },
    },
  )
}

/** Linked checkouts strictly below a folder by the list of one repository. */
async function listedIn(commonDir: string, folder: string): Promise<Checkout[]> {
  const links = await linksOf(commonDir)
  return links
    .map((link) => dirname(link))
    .filter((path) => path !== folder && isInside(path, folder))
    .map((path) => ({ path, commonDir }))
}

/** The same by what lies there, of any repository that knows them. */
async function checkoutsIn(folder: string): Promise<Checkout[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  const below = await Promise.all(
    entries
      .filter((entry) => entry.isDirectory() && entry.name !== '.git')
      .map(async ({ name }): Promise<Checkout[]> => {
        const path = join(folder, name)
        const place = (await hasGit(path)) ? await findGit(path).catch(() => null) : null
        const isLinked = place?.top === path && place.linked && place.confirmed
        return [...(isLinked ? [{ path, commonDir: place.commonDir }] : []), ...(await checkoutsIn(path))]
      }),
  )
  return below.flat()
}

const hasGit = (path: string): Promise<boolean> =>
  lstat(join(path, '.git')).then(
    () => true,
    () => false,
  )

/**
 * The commits of repositories that lie in a tree and are no part of its own, as `path (a repository): commit`. Git tells
 * such a one as a single file, by a path that ends with a slash.
 */
export async function nestedCommits(tree: string, told: readonly string[]): Promise<string[]> {
  const commits: string[] = []
  for (const path of told.filter((each) => each.endsWith('/'))) {
    const folder = join(tree, path.slice(0, -1))
    const place = await findGit(folder).catch(() => null)
    if (place === null || place.top !== folder || place.linked) continue
    // One that git cannot read keeps nobody from putting the tree away: all of it goes to the archive.
    const listed = await commitsIn(place.commonDir).catch(() => ['its commits cannot be read'])
    commits.push(...listed.map((commit) => `${path} (a repository): ${commit}`))
  }
  return commits
}

async function commitsIn(commonDir: string): Promise<string[]> {
  const repository = await openRepository(commonDir)
  const head = (await repository.commit('HEAD')) === null ? [] : ['HEAD']
  const listed = await repository.git(['log', '--format=%h %s', ...head, '--all', '--not', '--remotes'])
  return listed.split('\n').filter((line) => line !== '')
}
