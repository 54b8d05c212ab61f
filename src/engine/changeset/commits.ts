import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { inflate } from 'node:zlib'
import { git, tryGit } from '../base/git.ts'
import { movedSubmodules, submoduleStays } from '../base/gitlinks.ts'
import { withoutMarkers } from '../base/markers.ts'
import type { Workspace } from '../base/workspace.ts'
import { fromBytes, fromText, joinPath, type BytePath } from './bytePath.ts'
import { contentOf } from './content.ts'
import { unlessMissing, type Disk } from './disk.ts'
import type { Manifest } from './manifest.ts'
import { PackWriter, type ObjectType } from './packWriter.ts'
import { sidesOf } from './scan.ts'
import { Tree } from './tree.ts'

type Commit = Manifest['commits'][number]
/** A folder below a root with a repository of its own. */
export type Nested = { readonly root: string; readonly folder: string }
type Repository = {
  readonly root: string
  /** Where below the root it lies; absent for the root's own. */
  readonly folder?: string
  /** Path of a submodule's repository below `modules`, or of a linked worktree's below `.git`; absent for the repository itself. */
  readonly submodule?: string
  readonly agentGit: string
  /** What it started from. */
  readonly realGit: string
  /** The user's own, which gets its commits when they land. */
  readonly landsIn: string
}

const inflated = promisify(inflate)
const largestLoose = 128 * 1024 * 1024
const largestPack = 2 * 1024 ** 3
const mostObjects = 200_000
const mostSubmodules = 100
const deepestSubmodule = 8
const mostNested = 500

/** The repositories of a workspace that the agent may have committed to, ours and its side by side. */
async function repositoriesOf(workspace: Workspace, nested: readonly Nested[]): Promise<Repository[]> {
  const found: Repository[] = []
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
      found.push(...own.map((each) => (folder === undefined ? each : { ...each, folder })))
    }
  }
  return found
}

/** A repository, and those of its submodules. */
async function repositoriesAt(root: string, agentGit: string, realGit: string): Promise<Repository[]> {
  const [theirs, ours] = [join(agentGit, 'modules'), join(realGit, 'modules')]
  const found: Repository[] = [{ root, agentGit, realGit, landsIn: realGit }]
  if (await isFolder(theirs)) found.push(...(await submodulesIn(root, theirs, ours, ours)))
  return [...found, ...(await submodulesOfLinked(root, agentGit, realGit))]
}

/** Without following a link on the way: one of the agent's would lead to another repository. */
async function isFolderIn(root: string, path: string): Promise<boolean> {
  await using tree = new Tree(root)
  return (await tree.lstat(fromText(path)))?.isDirectory() === true
}

/** A linked worktree of the user keeps the repositories of its submodules in its own part of the common folder. */
async function submodulesOfLinked(root: string, agentGit: string, realGit: string): Promise<Repository[]> {
  const found: Repository[] = []
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
const linkedFolder = 'worktrees'

/** Submodules' repositories that are on both sides. Looked up step by step: a link in between would lead elsewhere. */
async function submodulesIn(
  root: string,
  agent: string,
  real: string,
  user: string,
  above = '',
): Promise<Repository[]> {
  const found: Repository[] = []
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
 * configuration, hook, index or alternate is read. Loose objects are unpacked here and named anew by their
 * content, packs go through `index-pack` as from a hostile remote, and tips count only if all they need is there.
 */
export async function captureCommits(
  workspace: Workspace,
  gitDir: string,
  disk: Disk,
  nested: readonly Nested[],
): Promise<{ commits: Commit[]; problems: { root: string; path: string; why: string }[] }> {
  const commits: Commit[] = []
  const problems: { root: string; path: string; why: string }[] = []
  for (const { root, folder } of nested.slice(mostNested))
    problems.push({
      root,
      path: `${folder}/.git`,
      why: 'too many repositories: its commits were not imported',
    })
  for (const repository of await repositoriesOf(workspace, nested.slice(0, mostNested))) {
    const { tips, foreign } = await changedTips(repository, disk)
    for (const ref of foreign)
      problems.push({
        root: repository.root,
        path: `${gitPath(repository)}/${ref}`,
        why: 'its commits are named by SHA-256 and were not imported',
      })
    if (tips.length === 0) continue
    try {
      const env = { GIT_ALTERNATE_OBJECT_DIRECTORIES: join(repository.realGit, 'objects') }
      await takeObjects(repository, gitDir, disk, env)
      for (const tip of tips) {
        const not = tip.base === null ? [] : [`^${tip.base}`]
        const walk = await tryGit(['rev-list', '--objects', '--quiet', tip.oid, ...not, '--'], {
          gitDir,
          env,
        })
        const isCommit = await tryGit(['cat-file', '-e', `${tip.oid}^{commit}`], { gitDir, env })
        if (walk.code === 0 && isCommit.code === 0) {
          const known = tip.base === null ? [] : [tip.base]
          const oid = (await withoutMarkers([tip.oid], known, { gitDir, env })).get(tip.oid) ?? tip.oid
          commits.push({ ...tip, oid })
          for (const [path, to] of await movedSubmodules(tip.base, oid, { gitDir, env }))
            problems.push({ root: tip.root, path, why: submoduleStays(to) })
        } else
          problems.push({
            root: tip.root,
            path: `${gitPath(repository)}/${tip.ref}`,
            why: 'its commits are incomplete and were not imported',
          })
      }
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      const path = gitPath(repository)
      problems.push({ root: repository.root, path, why: `its commits could not be imported: ${why}` })
    }
  }
  return { commits, problems }
}

function gitPath({ folder, submodule }: Repository): string {
  const own = folder === undefined ? '.git' : `${folder}/.git`
  if (submodule === undefined) return own
  return submodule.startsWith(`${linkedFolder}/`) ? `${own}/${submodule}` : `${own}/modules/${submodule}`
}

/** Branches (and a detached HEAD) that point elsewhere than in the user's repository. */
async function changedTips(
  { root, folder, submodule, agentGit, realGit }: Repository,
  disk: Disk,
): Promise<{ tips: Commit[]; foreign: string[] }> {
  await using tree = new Tree(agentGit, disk)
  const tips = new Map<string, string>()
  for (const line of ((await readSmall(tree, fromText('packed-refs'))) ?? '').split('\n')) {
    const match = /^([0-9a-f]{40,64}) (refs\/heads\/.+)$/.exec(line)
    if (match?.[1] !== undefined && match[2] !== undefined) tips.set(match[2], match[1])
  }
  for (const path of await filesBelow(tree, fromText('refs/heads'), 6)) {
    const value = (await readSmall(tree, path))?.trim() ?? ''
    if (isOid.test(value)) tips.set(path, value)
  }
  const head = (await readSmall(tree, fromText('HEAD')))?.trim() ?? ''
  if (isOid.test(head)) tips.set('HEAD', head)
  // The layer of the agent has it only if it switched branches.
  await using real = new Tree(realGit, disk)
  const checkedOut = head === '' ? ((await readSmall(real, fromText('HEAD')))?.trim() ?? '') : head
  const changed: Commit[] = []
  const foreign: string[] = []
  for (const [ref, oid] of tips) {
    const isSafe = ref === 'HEAD' || (await tryGit(['check-ref-format', ref])).code === 0
    if (!isSafe || !/^[\x21-\x7e]+$/.test(ref)) continue
    const known = await tryGit(['rev-parse', '--verify', '--quiet', '--end-of-options', ref], {
      gitDir: realGit,
    })
    const base = known.code === 0 ? known.stdout.toString().trim() : await headOf(realGit)
    if (base !== oid && oid.length > 40) foreign.push(ref)
    else if (base !== oid)
      changed.push({
        root,
        ref,
        oid,
        base,
        ...(folder === undefined ? {} : { folder }),
        ...(submodule === undefined ? {} : { submodule }),
        ...(ref === 'HEAD' || checkedOut === `ref: ${ref}` ? { head: true } : {}),
      })
  }
  return { tips: changed, foreign }
}
const isOid = /^([0-9a-f]{40}|[0-9a-f]{64})$/

async function headOf(realGit: string): Promise<string | null> {
  const head = await tryGit(['rev-parse', '--verify', '--quiet', 'HEAD'], { gitDir: realGit })
  return head.code === 0 ? head.stdout.toString().trim() : null
}

async function takeObjects(
  repository: Repository,
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
  const packs = joinPath(objects, 'pack')
  for (const file of (await unlessMissing(tree.list(packs))) ?? []) {
    const name = fromBytes(file)
    if (!name.endsWith('.pack')) continue
    const pack = await readBytes(tree, joinPath(packs, name), 512 * 1024 * 1024)
    if (pack === null) throw new Error(`${name} is too large`)
    await git(['index-pack', '--stdin', '--fix-thin', '--fsck-objects', `--max-input-size=${largestPack}`], {
      gitDir,
      env,
      input: pack,
    })
  }
}

async function readSmall(tree: Tree, path: BytePath): Promise<string | null> {
  return (await readBytes(tree, path, 4 * 1024 * 1024))?.toString('latin1') ?? null
}
async function readBytes(tree: Tree, path: BytePath, limit: number): Promise<Buffer | null> {
  const stat = await tree.lstat(path)
  if (stat === null || !stat.isFile() || stat.size > limit) return null
  const chunks: Buffer[] = []
  for await (const chunk of contentOf(tree, path)) chunks.push(chunk)
  return Buffer.concat(chunks)
}
async function filesBelow(tree: Tree, path: BytePath, depth: number): Promise<BytePath[]> {
  const found: BytePath[] = []
  for (const name of (await unlessMissing(tree.list(path))) ?? []) {
    const at = joinPath(path, fromBytes(name))
    const stat = await tree.lstat(at)
    if (stat?.isFile() === true) found.push(at)
    else if (stat?.isDirectory() === true && depth > 0) found.push(...(await filesBelow(tree, at, depth - 1)))
  }
  return found
}

/** Hands the agent's commits over to the user's repository, under `refs/orangery/<id>/`, and nothing else with them. */
export async function importCommits(
  manifest: Manifest,
  workspace: Workspace,
  gitDir: string,
): Promise<string[]> {
  const notes: string[] = []
  const nested = manifest.commits.flatMap(({ root, folder }) =>
    folder === undefined ? [] : { root, folder },
  )
  const repositories = manifest.commits.length === 0 ? [] : await repositoriesOf(workspace, nested)
  for (const { root, ref, oid, base, folder, submodule } of manifest.commits) {
    const repository = repositories.find(
      (each) => each.root === root && each.folder === folder && each.submodule === submodule,
    )
    const inside = join(folder ?? '', '.git', ...(submodule === undefined ? [] : ['modules', submodule]))
    const realGit = repository?.landsIn ?? join(root, inside)
    try {
      if (folder !== undefined && !(await isFolderIn(root, join(folder, '.git'))))
        throw new Error(`${folder} is no repository any more`)
      const env = { GIT_ALTERNATE_OBJECT_DIRECTORIES: join(realGit, 'objects') }
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
