import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { OrangeryError } from '../../shared/errors.ts'
import type { DispatchId, RepoId } from '../../shared/ids.ts'
import { alsoObjectsOf, git, quotedPath, tryGit } from '../base/git.ts'
import { createRepoLock } from '../base/lock.ts'
import type { InvocationMeta } from '../base/invocation.ts'
import { withoutMarkers } from '../base/markers.ts'
import { assertOwnGit } from '../base/ownGit.ts'
import type { Layout } from '../base/paths.ts'
import type { RunResult } from '../base/process.ts'
import type { Workspace } from '../base/workspace.ts'
import { folderInside, isInside } from './pathSafety.ts'

/**
 * Runs one command in a second sandbox that shows the same workspace as the agent had, without network, and
 * gives back its bytes. What the agent wrote into its `.git` (hooks, configuration, replaced objects) takes
 * effect in there and nowhere else.
 */
export type InsideRunner = (
  command: readonly [string, ...string[]],
  options: { readonly input?: string; readonly maxBytes: number; readonly timeoutS?: number },
) => Promise<RunResult>

export type CollectOptions = {
  readonly layout: Layout
  readonly repoId: RepoId
  readonly id: DispatchId
  /** The user's repository, of which only objects and refs are read. */
  readonly commonDir: string
  /** Where the agent's checkout is, as it sees it. */
  readonly checkout: string
  readonly inside: InsideRunner
  /** The refs the agent started with; left out, those of the repository now. */
  readonly refs?: ReadonlyMap<string, string>
  readonly maxBytes?: number
}

export type CollectedRef = {
  readonly ref: string
  readonly commit: string
  /** It was not in the user's repository before. */
  readonly isNew?: boolean
  /** It held a marker of ours, which was taken out: what the agent's own commit was. */
  readonly was?: string
}
const defaultMaxBytes = 512 * 1024 * 1024
const listLimit = 1024 * 1024
/** A pipe that the agent left among its refs would hold git up for as long as it may run. */
const listSeconds = 10

/** Our own bare repository with the commits of agents; it borrows the user's objects and never writes there. */
export function commitsDir(layout: Layout, repoId: RepoId): string {
  return join(layout.repo(repoId), 'commits.git')
}

export function collectedPrefix(id: DispatchId): string {
  return `refs/orangery/${id}/`
}

/**
 * Brings the commits an agent made out of its sandbox. Only bytes cross: a pack is made inside and checked
 * outside object by object; refs are named by us. Nothing the agent wrote is run, and the user's repository
 * is not written before a landing.
 */
export async function collectCommits(options: CollectOptions): Promise<CollectedRef[]> {
  const { layout, repoId, id, commonDir, checkout, inside } = options
  const theirs = parseRefs(
    await ask(inside, checkout, ['for-each-ref', `--format=${refFormat}`, 'refs/heads']),
  )
  const ours = await allRefs(commonDir)
  const known = new Set(ours.map(({ commit }) => commit))
  const before = options.refs ?? new Map(ours.map(({ ref, commit }) => [ref, commit]))
  const moved = theirs.filter(({ ref, commit }) => before.get(ref) !== commit)
  if (moved.length === 0) return []
  const into = await openCommits(layout, repoId, commonDir)
  const missing = moved.filter(({ commit }) => !known.has(commit))
  if (missing.length > 0) {
    const shared = without(theirs.map(({ commit }) => commit).filter((commit) => known.has(commit)))
    const revisions = [...new Set([...missing.map(({ commit }) => commit), ...shared])].join('\n')
    const maxBytes = options.maxBytes ?? defaultMaxBytes
    const pack = await inside(
      [
        'git',
        '-C',
        checkout,
        'pack-objects',
        '--revs',
        '--thin',
        '--stdout',
        '--quiet',
        '--delta-base-offset',
      ],
      { input: `${revisions}\n`, maxBytes },
    )
    if (pack.code !== 0) throw refuse(`the pack could not be made (${lastLine(pack.stderr)})`)
    await takePack(into, pack.stdout, maxBytes)
  }
  await using _lock = await createRepoLock(layout).acquire(`commits-${repoId}`)
  const collected: CollectedRef[] = []
  for (const { commit } of moved) await assertConnected(into, commit, known)
  const tips = missing.map(({ commit }) => commit)
  const renamed = await withoutMarkers(tips, known, { gitDir: into }).catch((error: unknown) => {
    throw refuse(error instanceof Error ? error.message : String(error))
  })
  for (const { ref, commit: was } of moved) {
    // Put on another commit of the user's, a branch has none of the agent's.
    if (!(await isBeyond(into, was, known))) continue
    const commit = renamed.get(was) ?? was
    const name = `${collectedPrefix(id)}${ref.slice('refs/'.length)}`
    await git(['update-ref', name, commit], { gitDir: into })
    collected.push({ ref: name, commit, ...(commit === was ? {} : { was }) })
  }
  return collected
}

/**
 * Takes in what the review has of an agent's commits and its own git did not hand out: a HEAD that was detached,
 * commits on no branch, and everything where the agent broke its configuration. Checked object by object too.
 */
export async function adoptCommits(
  options: Pick<CollectOptions, 'layout' | 'repoId' | 'id' | 'commonDir'> & {
    /** The repository that has them, and what they are called in the agent's. */
    readonly from: string
    readonly tips: readonly {
      readonly ref: string
      readonly oid: string
      readonly head?: boolean | undefined
    }[]
    /** It was given a branch of its own, and a landing merges what it ended on. */
    readonly isOnBranch?: boolean
  },
): Promise<CollectedRef[]> {
  const { layout, repoId, id, commonDir, from } = options
  const held = new Set((await listCollected(layout, repoId, id)).map(({ ref, commit }) => `${ref} ${commit}`))
  const last = options.isOnBranch === true ? options.tips.find(({ head }) => head === true) : undefined
  const isBack = last?.ref === `refs/heads/${sandboxBranch(id)}`
  if (isBack)
    await tryGit(['update-ref', '-d', `${collectedPrefix(id)}HEAD`], { gitDir: commitsDir(layout, repoId) })
  const ended = last === undefined || isBack || last.ref === 'HEAD' ? [] : [{ ref: 'HEAD', oid: last.oid }]
  const tips = [...options.tips, ...ended]
    .map(({ ref, oid }) => ({ ref: `${collectedPrefix(id)}${ref.replace(/^refs\//, '')}`, commit: oid }))
    .filter(({ ref, commit }) => isPlainRef(ref) && !held.has(`${ref} ${commit}`))
  if (tips.length === 0) return []
  const into = await openCommits(layout, repoId, commonDir)
  const known = new Set((await allRefs(commonDir)).map(({ commit }) => commit))
  const revisions = [...new Set(tips.map(({ commit }) => commit)), ...without(known)].join('\n')
  const pack = await git(['pack-objects', '--revs', '--thin', '--stdout', '--quiet'], {
    gitDir: from,
    env: alsoObjectsOf(commonDir),
    input: `${revisions}\n`,
  })
  await takePack(into, pack, defaultMaxBytes)
  await using _lock = await createRepoLock(layout).acquire(`commits-${repoId}`)
  for (const { ref, commit } of tips) {
    await assertConnected(into, commit, known)
    await git(['update-ref', ref, commit], { gitDir: into })
  }
  return tips
}

/** The branch that an agent is given in a worktree sandbox. */
export const sandboxBranch = (id: DispatchId): string => `agency/sandbox-${id}`

/** The commit an agent ended on: where its HEAD was if that is not on its own branch, or else the branch's. */
export function lastCommit(
  collected: readonly CollectedRef[],
  { invocation_id: id, sandbox_branch: branch }: Pick<InvocationMeta, 'invocation_id' | 'sandbox_branch'>,
): CollectedRef | undefined {
  const named = (name: string) => collected.find(({ ref }) => ref === `${collectedPrefix(id)}${name}`)
  return named('HEAD') ?? named(`heads/${branch}`)
}

/** Whether an agent wrote refs or objects at all: an overlay of the repository shows it at a glance. */
export async function leftGitObjects(workspace: Workspace, commonDir: string): Promise<boolean> {
  for (const { mount, path } of workspace.roots) {
    const lower = mount.kind === 'overlay' ? mount.lower : path
    if (!isInside(commonDir, lower)) continue
    const written = mount.kind === 'overlay' ? mount.upper : mount.source
    if (mount.kind === 'bind') return written !== path
    if ((await folderInside(written, ...commonDir.slice(lower.length).split('/'), 'objects')) !== null)
      return true
  }
  return false
}

const refFormat = '%(objectname) %(objecttype) %(refname)'

async function allRefs(gitDir: string): Promise<CollectedRef[]> {
  return parseRefs((await git(['for-each-ref', `--format=${refFormat}`], { gitDir })).toString())
}

async function ask(inside: InsideRunner, checkout: string, args: readonly string[]): Promise<string> {
  const result = await inside(['git', '-C', checkout, ...args], {
    maxBytes: listLimit,
    timeoutS: listSeconds,
  })
  if (result.signal !== null) throw refuse(`git inside did not answer within ${listSeconds} s`)
  if (result.code !== 0) throw refuse(`git inside said: ${lastLine(result.stderr)}`)
  return result.stdout.toString()
}

// Whatever answers inside is the agent's word: only whole, plain lines count, and names that git would take.
function parseRefs(text: string): CollectedRef[] {
  const refs: CollectedRef[] = []
  for (const line of text.split('\n')) {
    const match = /^([0-9a-f]{40}|[0-9a-f]{64}) (?:commit|tag) (refs\/[^\s]{1,512})$/.exec(line)
    if (match?.[1] !== undefined && match[2] !== undefined && isPlainRef(match[2])) {
      refs.push({ commit: match[1], ref: match[2] })
    }
  }
  return refs
}

export function isPlainRef(ref: string): boolean {
  if (/\.\.|@\{|[\p{Cc}\s~^:?*[\\]/u.test(ref)) return false
  return ref.split('/').every((part) => part !== '' && !/^[.-]|\.lock$|\.$/.test(part))
}

async function openCommits(layout: Layout, repoId: RepoId, commonDir: string): Promise<string> {
  await assertOwnGit(commonDir)
  const path = commitsDir(layout, repoId)
  await initBare(path, commonDir)
  await mkdir(join(path, 'objects', 'info'), { recursive: true })
  await writeFile(join(path, 'objects', 'info', 'alternates'), `${quotedPath(join(commonDir, 'objects'))}\n`)
  return path
}

/** A bare repository of ours that names objects as another one does. */
export async function initBare(path: string, like: string): Promise<void> {
  const format = (await git(['rev-parse', '--show-object-format'], { gitDir: like })).toString().trim()
  await git(['init', '-q', '--bare', `--object-format=${format}`, '--template=', path])
}

async function takePack(into: string, pack: Buffer, maxBytes: number): Promise<void> {
  const taken = await tryGit(
    ['index-pack', '--stdin', '--fix-thin', '--strict', `--max-input-size=${maxBytes}`],
    { gitDir: into, input: pack },
  )
  if (taken.code !== 0) throw refuse(`its objects are not sound (${lastLine(taken.stderr)})`)
}

async function isBeyond(gitDir: string, commit: string, known: ReadonlySet<string>): Promise<boolean> {
  const input = `${[commit, ...without(known)].join('\n')}\n`
  return (await git(['rev-list', '--max-count=1', '--stdin'], { gitDir, input })).length > 0
}

async function assertConnected(into: string, commit: string, known: ReadonlySet<string>): Promise<void> {
  const walked = await tryGit(['rev-list', '--objects', '--quiet', '--stdin'], {
    gitDir: into,
    input: `${[commit, ...without(known)].join('\n')}\n`,
  })
  if (walked.code !== 0) throw refuse(`${commit} is not complete (${lastLine(walked.stderr)})`)
}

export const without = (commits: Iterable<string>): string[] => [...commits].map((commit) => `^${commit}`)

function refuse(why: string): OrangeryError {
  return new OrangeryError('workspace.commits_refused', `commits of the agent: ${why}`, {
    kind: 'refused',
    hint: 'The files can still be reviewed and landed; only the history is left behind.',
  })
}

function lastLine(text: Buffer): string {
  return text.toString().trim().split('\n').at(-1)?.slice(0, 300) ?? ''
}

export async function listCollected(layout: Layout, repoId: RepoId, id: DispatchId): Promise<CollectedRef[]> {
  const listed = await tryGit(['for-each-ref', `--format=${refFormat}`, collectedPrefix(id)], {
    gitDir: commitsDir(layout, repoId),
  })
  return listed.code === 0 ? parseRefs(listed.stdout.toString()) : []
}

/** Lets go of the commits of an agent that nobody wanted. */
export async function forgetCollected(layout: Layout, repoId: RepoId, id: DispatchId): Promise<void> {
  for (const { ref, commit } of await listCollected(layout, repoId, id))
    await tryGit(['update-ref', '-d', ref, commit], { gitDir: commitsDir(layout, repoId) })
}

/** Copies the agent's commits into the user's repository under `refs/orangery/<id>/`, at a landing. */
export async function publishCommits(
  layout: Layout,
  repoId: RepoId,
  id: DispatchId,
  commonDir: string,
): Promise<CollectedRef[]> {
  const collected = await listCollected(layout, repoId, id)
  if (collected.length === 0) return []
  const gitDir = commitsDir(layout, repoId)
  const known = await allRefs(commonDir)
  const revisions = [
    ...collected.map(({ commit }) => commit),
    ...without(known.map(({ commit }) => commit)),
  ].join('\n')
  const pack = await git(['pack-objects', '--revs', '--thin', '--stdout', '--quiet'], {
    gitDir,
    input: `${revisions}\n`,
  })
  await takePack(commonDir, pack, defaultMaxBytes)
  for (const { ref, commit } of collected) await git(['update-ref', ref, commit], { gitDir: commonDir })
  return collected.map((each) => ({ ...each, isNew: !known.some(({ ref }) => ref === each.ref) }))
}
