import { lstat } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { findGit } from '../../base/findGit.ts'
import { openRepository, type Repository } from '../git/repository.ts'
import { submodulesOf } from '../make/sandboxFolders.ts'
import { isFolder } from '../find/scan.ts'
import { openStatus } from './wholeStatus.ts'

type Looked = {
  /** The repository and checkout that have the submodules, and the commit they were made from. */
  readonly repository: Repository
  readonly tree: string
  readonly base: string | null
  /** Where the repositories of our submodules lie, and those of the user that they borrow from. */
  readonly places: { readonly ours: string; readonly theirs: string }
}
type Held = {
  readonly uncommitted: string[]
  readonly unmerged: string[]
  /** Submodules that git cannot look at: they may hold anything. */
  readonly unseen: string[]
}

/**
 * What the submodules of a checkout hold that is nowhere else. Each is asked by itself: where git looks into them on its
 * way, it runs the filters that they are configured with. (escape: git-drivers)
 */
export const submoduleStakes = (repository: Repository, tree: string, base: string | null): Promise<Held> =>
  lookInto({
    repository,
    tree,
    base,
    places: { ours: submodulesOf(dirname(tree)), theirs: join(repository.commonDir, 'modules') },
  })

async function lookInto({ repository, tree, base, places }: Looked): Promise<Held> {
  const held: Held = { uncommitted: [], unmerged: [], unseen: [] }
  const listed = await repository.raw(['ls-files', '-s', '-z'], { cwd: tree })
  for (const entry of listed.toString().split('\0')) {
    if (!entry.startsWith('160000 ')) continue
    const path = entry.slice(entry.indexOf('\t') + 1)
    const folder = join(tree, path)
    const place = await findGit(folder).catch(() => null)
    if (place === null || place.top !== folder) {
      if ((await lstat(join(folder, '.git')).catch(() => null)) !== null) held.unseen.push(path)
      continue
    }
    try {
      const submodule = await openRepository(place.commonDir)
      if (await isChanged(submodule, folder)) held.uncommitted.push(path)
      const from =
        base === null ? null : await repository.try(['rev-parse', '-q', '--verify', `${base}:${path}`])
      const was = from?.code === 0 ? from.stdout.toString().trim() : null
      const commits = await ownCommits(submodule, folder, [
        ...(was === null ? [] : [was]),
        ...(await lent(place.commonDir, places)),
      ])
      held.unmerged.push(...commits.map((commit) => `${path}: ${commit}`))
      const below = await lookInto({ repository: submodule, tree: folder, base: was, places })
      held.uncommitted.push(...below.uncommitted.map((each) => `${path}/${each}`))
      held.unmerged.push(...below.unmerged.map((each) => `${path}/${each}`))
      held.unseen.push(...below.unseen.map((each) => `${path}/${each}`))
    } catch {
      held.unseen.push(path)
    }
  }
  return held
}

async function isChanged(submodule: Repository, folder: string): Promise<boolean> {
  await using seen = await openStatus(submodule, folder)
  const { code, stdout } = await seen.status(['-uall', '--ignore-submodules=dirty'])
  return code !== 0 || stdout.length > 0
}

/** Commits on a branch, in the stash or on the HEAD of a submodule that nobody else has. */
async function ownCommits(submodule: Repository, cwd: string, known: readonly string[]): Promise<string[]> {
  const input = known.map((commit) => `^${commit}\n`).join('')
  const args = ['log', '--format=%h %s', '--ignore-missing', '--stdin', 'HEAD', '--all', '--not', '--remotes']
  const listed = await submodule.git(args, { cwd, input })
  return listed === '' ? [] : listed.split('\n')
}

/** What the user has in the repository that one of ours borrows from. */
async function lent(gitDir: string, { ours, theirs }: Looked['places']): Promise<string[]> {
  const name = relative(ours, gitDir)
  const source = join(theirs, name)
  if (name.startsWith('..') || !(await isFolder(source))) return []
  const lender = await openRepository(source)
  const refs = await lender.git(['for-each-ref', '--format=%(objectname)'])
  const head = await lender.commit('HEAD')
  return [...refs.split('\n'), head ?? ''].filter((commit) => commit !== '')
}
