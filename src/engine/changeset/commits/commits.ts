import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { inflate } from 'node:zlib'
import { readFrozenRefs } from '../../base/frozenRefs.ts'
import { alsoObjectsOf, git, tryGit } from '../../base/git.ts'
import { movedSubmodules, submoduleStays } from '../../base/gitlinks.ts'
import { withoutMarkers } from '../../base/markers.ts'
import { assertOwnGit } from '../../base/ownGit.ts'
import type { Workspace } from '../../base/workspace.ts'
import {
  changedTips,
  isLeft,
  leftCommits,
  leftPrefix,
  linkedFolder,
  readBytes,
  type AgentRepository,
} from './agentRefs.ts'
import { fromBytes, fromText, joinPath } from '../bytePath.ts'
import { contentOf } from '../capture/content.ts'
import { unlessMissing, type Disk } from '../disk.ts'
import type { Manifest } from '../manifest.ts'
import { PackWriter, type ObjectType } from '../objects/packWriter.ts'
import { sidesOf } from '../capture/scan.ts'
import { stagedSubmodules } from './stagedLinks.ts'
import { Tree } from '../objects/tree.ts'

type Commit = Manifest['commits'][number]
/** A folder below a root with a repository of its own. */
export type Nested = { readonly root: string; readonly folder: string }
const inflated = promisify(inflate)
const largestLoose = 128 * 1024 * 1024
const largestPack = 2 * 1024 ** 3
const mostObjects = 200_000
const mostSubmodules = 100
const deepestSubmodule = 8
const mostNested = 500

/** The repositories of a workspace that the agent may have committed to, ours and its side by side. */
async function repositoriesOf(workspace: Workspace, nested: readonly Nested[]): Promise<AgentRepository[]> {
  const found: AgentRepository[] = []
  const common = workspace.roots.find((root) => root.role === 'git')?.path
  for (const root of workspace.roots) {
    const { result, base } = sidesOf(root)
    // A worktree sandbox has its submodules' repositories beside its tree; the user's are in his own.
    if (root.path === join(workspace.dir, 'modules') && common !== undefined) {
      found.push(...(await submodulesIn(root.path, result, base, join(common, 'modules'))))
      continue
    }
    const below = nested.filter((each) => each.root === root.path).map(({ folder }) => folder)
    const folders = root.role === 'git' ? [undefined] : [undefined, ...new Set(below)]
    for (const folder of folders) {
      const inside = root.role === 'git' ? '' : join(folder ?? '', '.git')
      if (!(await isFolderIn(result, inside)) || !(await isFolderIn(base, inside))) continue
      const own = await repositoriesAt(root.path, join(result, inside), join(base, inside))
      const frozen = root.role === 'git' ? await readFrozenRefs(root.mount) : null
      if (frozen !== null && own[0] !== undefined) own[0] = { ...own[0], frozen }
      found.push(...own.map((each) => (folder === undefined ? each : { ...each, folder })))
    }
  }
  return found
}

/** A repository, and those of its submodules. */
async function repositoriesAt(root: string, agentGit: string, realGit: string): Promise<AgentRepository[]> {
  const [theirs, ours] = [join(agentGit, 'modules'), join(realGit, 'modules')]
  const found: AgentRepository[] = [{ root, agentGit, realGit, landsIn: realGit }]
  if (await isFolder(theirs)) found.push(...(await submodulesIn(root, theirs, ours, ours)))
  return [...found, ...(await submodulesOfLinked(root, agentGit, realGit))]
}

/** Without following a link on the way: one of the agent's would lead to another repository. */
async function isFolderIn(root: string, path: string): Promise<boolean> {
  await using tree = new Tree(root)
  return (await tree.lstat(fromText(path)))?.isDirectory() === true
}

/** A linked worktree of the user keeps the repositories of its submodules in its own part of the common folder. */
async function submodulesOfLinked(
  root: string,
  agentGit: string,
  realGit: string,
): Promise<AgentRepository[]> {
  const found: AgentRepository[] = []
  const [theirs, ours] = [join(agentGit, linkedFolder), join(realGit, linkedFolder)]
  for (const name of (await isFolder(theirs)) ? await readdir(theirs) : []) {
    const [agent, real] = [join(theirs, name, 'modules'), join(ours, name, 'modules')]
    const folders = [join(theirs, name), join(ours, name), agent, real]
    const isThere = (await Promise.all(folders.map(isFolder))).every(Boolean)
    if (isThere)
      found.push(...(await submodulesIn(root, agent, real, real, `${linkedFolder}/${name}/modules`)))
  }
  return found
}

/** Submodules' repositories that are on both sides. Looked up step by step: a link in between would lead elsewhere. */
async function submodulesIn(
  root: string,
  agent: string,
  real: string,
  user: string,
  above = '',
): Promise<AgentRepository[]> {
  const found: AgentRepository[] = []
  if (above.split('/').length > deepestSubmodule) return found
  for (const name of await readdir(agent).catch(() => [])) {
    if (found.length >= mostSubmodules) break
    const [agentGit, realGit, landsIn] = [join(agent, name), join(real, name), join(user, name)]
    if (!(await isFolder(agentGit)) || !(await isFolder(realGit))) continue
    const submodule = above === '' ? name : `${above}/${name}`
    const isRepository = await isFolder(join(realGit, 'objects'))
    if (isRepository) found.push({ root, submodule, agentGit, realGit, landsIn })
    const inside = isRepository ? '/modules' : ''
    const places = [agentGit, realGit, landsIn].map((path) => path + inside) as [string, string, string]
    if (await isFolder(places[0])) found.push(...(await submodulesIn(root, ...places, submodule + inside)))
  }
  return found
}
const isFolder = (path: string) =>
  lstat(path).then(
    (stat) => stat.isDirectory(),
    () => false,
  )

/**
 * Brings the commits an agent made into our own repository. Nothing of its repository is run or believed: no
 * configuration, hook or alternate is read, and of its index only where submodules point. Loose objects are unpacked here and named anew by their
 * content, packs go through `index-pack` as from a hostile remote, and tips count only if all they need is there.
 */
export async function captureCommits(
  workspace: Workspace,
  gitDir: string,
  disk: Disk,
  nested: readonly Nested[],
): Promise<History> {
  const history: History = { commits: [], problems: [], isWhole: true }
  const miss = (root: string, path: string, why: string) => {
    history.problems.push({ root, path, why })
    history.isWhole = false
  }
  for (const { root, folder } of nested.slice(mostNested))
    miss(root, `${folder}/.git`, 'too many repositories: its commits were not imported')
  const checkouts = workspace.roots.flatMap((each) => [each.path, sidesOf(each).base])
  for (const repository of await repositoriesOf(workspace, nested.slice(0, mostNested))) {
    const { root } = repository
    const place = gitPath(repository)
    const moved = new Map<string, string | null>()
    const checkout = checkoutOf(repository, workspace)
    try {
      const found = await changedTips(repository, checkouts, disk)
      for (const ref of found.foreign) miss(root, `${place}/${ref}`, foreignWhy)
      for (const { ref, oid } of found.moved)
        history.problems.push({ root, path: `${place}/${ref}`, why: movedTo(oid) })
      if (found.tips.length > 0 || found.passed.length > 0) {
        const env = alsoObjectsOf(repository.realGit)
        await takeObjects(repository, gitDir, disk, env)
        const left = await leftCommits(found, repository, { gitDir, env })
        if (left.more > 0)
          miss(root, place, `${left.more} more commits are on no branch and were not imported`)
        for (const tip of [...found.tips, ...left.tips]) {
          const oid = await wholeCommit(tip, { gitDir, env })
          if (oid === null) {
            miss(root, `${place}/${tip.ref}`, 'its commits are incomplete and were not imported')
            continue
          }
          const ref = isLeft(tip.ref) ? `${leftPrefix}${oid}` : tip.ref
          history.commits.push({ ...tip, oid, ref })
          const isBranch = tip.head === true || tip.ref.startsWith('refs/heads/')
          const points = isBranch ? await movedSubmodules(tip.base, oid, { gitDir, env }) : []
          for (const [path, at] of points) {
            moved.set(path, at.to)
            history.problems.push({ root, path, why: submoduleStays(path, at, checkout) })
          }
        }
      }
      for (const [path, at] of await stagedSubmodules(repository, checkouts, disk))
        if (moved.get(path) !== at.to)
          history.problems.push({ root, path, why: submoduleStays(path, at, checkout, 'staged') })
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      miss(root, place, `its commits could not be imported: ${why}`)
    }
  }
  return history
}

/** The user's checkout that a repository belongs to; null where that is not told by where it lies. */
function checkoutOf(
  { root, folder, submodule }: AgentRepository,
  { roots, strategy }: Workspace,
): string | null {
  if (submodule !== undefined) return null
  if (roots.some(({ path, role }) => path === root && role === 'project')) return join(root, folder ?? '')
  const [first, ...others] = roots.filter(({ role }) => role === 'project')
  return strategy === 'worktree' || others.length === 0 ? (first?.path ?? null) : null
}

const movedTo = (oid: string): string =>
  `the agent moved it to ${oid.slice(0, 12)}, a commit of yours; it stays where it is`

/** What came out of an agent's repositories, and what a person must know of it. */
type History = {
  readonly commits: Commit[]
  readonly problems: { root: string; path: string; why: string }[]
  /** False: something the agent committed is only in its own layer. */
  isWhole: boolean
}

const foreignWhy = 'its commits are named by SHA-256 and were not imported'
export const isForeign = ({ why }: { readonly why: string }): boolean => why === foreignWhy

/** The commit a tip stands on, without our markers; null where something of it is missing. */
async function wholeCommit(
  tip: Commit,
  where: { readonly gitDir: string; readonly env: Record<string, string> },
): Promise<string | null> {
  const not = tip.base === null ? [] : [`^${tip.base}`]
  const walk = await tryGit(['rev-list', '--objects', '--quiet', tip.oid, ...not, '--'], where)
  const peeled = await tryGit(['rev-parse', '--verify', '-q', `${tip.oid}^{commit}`], where)
  if (walk.code !== 0 || peeled.code !== 0) return null
  const oid = peeled.stdout.toString().trim()
  const known = tip.base === null ? [] : [tip.base]
  return (await withoutMarkers([oid], known, where)).get(oid) ?? oid
}

function gitPath({ folder, submodule }: AgentRepository): string {
  const own = folder === undefined ? '.git' : `${folder}/.git`
  if (submodule === undefined) return own
  return submodule.startsWith(`${linkedFolder}/`) ? `${own}/${submodule}` : `${own}/modules/${submodule}`
}

async function takeObjects(
  repository: AgentRepository,
  gitDir: string,
  disk: Disk,
  env: Record<string, string>,
): Promise<void> {
  await using tree = new Tree(repository.agentGit, disk)
  const writer = new PackWriter(gitDir, disk)
  const objects = fromText('objects')
  let count = 0
  for (const folder of (await unlessMissing(tree.list(objects))) ?? []) {
    const name = fromBytes(folder)
    if (!/^[0-9a-f]{2}$/.test(name)) continue
    for (const file of (await unlessMissing(tree.list(joinPath(objects, name)))) ?? []) {
      count += 1
      if (count > mostObjects) throw new Error(`more than ${mostObjects} objects`)
      const raw = await readBytes(tree, joinPath(joinPath(objects, name), fromBytes(file)), largestLoose)
      if (raw === null) continue
      const whole = await inflated(raw, { maxOutputLength: largestLoose }).catch(() => null)
      const match =
        whole === null
          ? null
          : /^(commit|tree|blob|tag) (\d+)\0/.exec(whole.subarray(0, 64).toString('latin1'))
      if (whole === null || match === null) continue
      await writer.add(match[1] as ObjectType, whole.subarray(match[0].length))
    }
  }
  await writer.flush()
  await takePacks(repository.realGit, tree, gitDir, env)
}

const packFolder = 'objects/pack'

/** Also those into which a `git gc` of the agent's put the user's own commits with its own. */
async function takePacks(
  realGit: string,
  tree: Tree,
  gitDir: string,
  env: Record<string, string>,
): Promise<void> {
  for (const file of (await unlessMissing(tree.list(fromText(packFolder)))) ?? []) {
    const name = fromBytes(file)
    const path = joinPath(fromText(packFolder), name)
    const stat = name.endsWith('.pack') ? await tree.lstat(path) : null
    // One of the user's that the agent took away is a mark in its layer; one that it left is known.
    if (stat?.isFile() !== true || (await isPackOf(realGit, name, stat.size))) continue
    if (stat.size > largestPack) throw new Error(`${name} is too large`)
    await git(['index-pack', '--stdin', '--fix-thin', '--fsck-objects', `--max-input-size=${largestPack}`], {
      gitDir,
      env,
      input: contentOf(tree, path),
    })
  }
}

/** By name and size: who passes something else off as it has its own commits missed, and no others. */
const isPackOf = (realGit: string, name: string, size: number | bigint): Promise<boolean> =>
  lstat(join(realGit, packFolder, name)).then(
    (stat) => stat.isFile() && BigInt(stat.size) === BigInt(size),
    () => false,
  )

/** A commit of the agent's, and the user's repository that it belongs to. */
export type PlacedCommit = Commit & { readonly realGit: string }

export async function placedCommits(manifest: Manifest, workspace: Workspace): Promise<PlacedCommit[]> {
  const nested = manifest.commits.flatMap(({ root, folder }) =>
    folder === undefined ? [] : { root, folder },
  )
  const repositories = manifest.commits.length === 0 ? [] : await repositoriesOf(workspace, nested)
  return manifest.commits.map((commit) => {
    const { root, folder, submodule } = commit
    const repository = repositories.find(
      (each) => each.root === root && each.folder === folder && each.submodule === submodule,
    )
    const inside = join(folder ?? '', '.git', ...(submodule === undefined ? [] : ['modules', submodule]))
    return { ...commit, realGit: repository?.landsIn ?? join(root, inside) }
  })
}

/** Hands the agent's commits over to the user's repository, under `refs/orangery/<id>/`, and nothing else with them. */
export async function importCommits(
  manifest: Manifest,
  workspace: Workspace,
  gitDir: string,
): Promise<string[]> {
  const notes: string[] = []
  for (const { root, ref, oid, base, folder, realGit } of await placedCommits(manifest, workspace)) {
    try {
      if (folder !== undefined && !(await isFolderIn(root, join(folder, '.git'))))
        throw new Error(`${folder} is no repository any more`)
      await assertOwnGit(realGit)
      const env = alsoObjectsOf(realGit)
      const input = `${oid}\n${base === null ? '' : `^${base}\n`}`
      const pack = await git(['pack-objects', '--revs', '--thin', '--stdout', '-q'], { gitDir, env, input })
      await git(['index-pack', '--stdin', '--fix-thin', '--strict'], { gitDir: realGit, input: pack })
      const name = ref === 'HEAD' ? 'HEAD' : ref.replace(/^refs\//, '')
      await git(['update-ref', `refs/orangery/${manifest.id}/${name}`, oid], { gitDir: realGit })
    } catch (error) {
      notes.push(
        `commits of ${ref} were not imported: ${error instanceof Error ? error.message : String(error)}`,
      )
    }
  }
  return notes
}
