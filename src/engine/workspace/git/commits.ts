import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import { alsoObjectsOf, git, quotedPath, tryGit } from '../../base/git.ts'
import { createRepoLock } from '../../base/lock.ts'
import type { InvocationMeta } from '../../base/invocation.ts'
import { withoutMarkers } from '../../base/markers.ts'
import { assertOwnGit } from '../../base/ownGit.ts'
import type { Layout } from '../../base/paths.ts'
import type { RunResult } from '../../base/process.ts'
import type { Workspace } from '../../base/workspace.ts'
import { folderInside, isInside } from '../find/pathSafety.ts'

/**
 * Runs git in a second sandbox that shows what the agent left, without network, and gives back its bytes. Of the
 * agent's `.git` only objects and refs are read, and these in there and nowhere else.
 */
export type InsideRunner = (
  args: readonly string[],
  options: { readonly input?: string; readonly maxBytes: number; readonly timeoutS?: number },
) => Promise<RunResult>

export type CollectOptions = {
  readonly layout: Layout
  readonly repoId: RepoId
  readonly id: DispatchId
  /** The user's repository, of which only objects and refs are read. */
  readonly commonDir: string
  readonly inside: InsideRunner
  /** The refs the agent started with; left out, those of the repository now. */
  readonly refs?: ReadonlyMap<string, string>
  readonly maxBytes?: number
  readonly onRefused?: OnRefused
}

/** Told of each ref whose commits cannot be had while others can, by its name in the agent's repository. */
export type OnRefused = (ref: string, why: string) => void

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
/** How long refs are asked for one by one: an agent may have made any number of them. */
const singlyMs = 120_000

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
  const { layout, repoId, id, commonDir, inside } = options
  const theirs = parseRefs(await ask(inside, ['for-each-ref', `--format=${refFormat}`, 'refs/heads']))
  const ours = await allRefs(commonDir)
  const known = new Set(ours.map(({ commit }) => commit))
  const before = options.refs ?? new Map(ours.map(({ ref, commit }) => [ref, commit]))
  const moved = theirs.filter(({ ref, commit }) => before.get(ref) !== commit)
  const isNamed = (ref: string, refs: readonly CollectedRef[]) => refs.some((each) => each.ref === ref)
  const isAt = (name: string, commit: string) =>
    theirs.some((each) => each.ref === name && each.commit === commit)
  await setAside(options, (name, commit) => isBranch(name) && !isNamed(name, moved) && !isAt(name, commit))
  if (moved.length === 0) return []
  const into = await openCommits(layout, repoId, commonDir)
  const missing = moved.filter(({ commit }) => !known.has(commit))
  const bring = async (refs: readonly CollectedRef[]) => {
    const shared = without(theirs.map(({ commit }) => commit).filter((commit) => known.has(commit)))
    const revisions = [...new Set([...refs.map(({ commit }) => commit), ...shared])].join('\n')
    const maxBytes = options.maxBytes ?? defaultMaxBytes
    const pack = await inside(
      ['pack-objects', '--revs', '--thin', '--stdout', '--quiet', '--delta-base-offset', '--threads=1'],
      { input: `${revisions}\n`, maxBytes },
    )
    if (pack.code !== 0) throw refuse(`the pack could not be made (${lastLine(pack.stderr)})`)
    await takePack(into, pack.stdout, maxBytes)
    for (const { commit } of refs) await assertConnected(into, commit, known)
  }
  const own = `refs/heads/${sandboxBranch(id)}`
  const ownFirst = missing.toSorted((a, b) => Number(b.ref === own) - Number(a.ref === own))
  const sound = await takeSound(ownFirst, bring, options.onRefused)
  // Those that a landing has published are the agent's own all the same.
  const users = new Set(
    ours.filter(({ ref }) => !ref.startsWith(collectedPrefix(id))).map(({ commit }) => commit),
  )
  const taken = moved.filter((each) => known.has(each.commit) || sound.includes(each))
  const standing: CollectedRef[] = []
  // Put on another commit of the user's, a branch has none of the agent's.
  for (const each of taken) if (await isBeyond(into, each.commit, users)) standing.push(each)
  await setAside(
    options,
    (name, commit) => isNamed(name, taken) && !isNamed(name, standing) && !isAt(name, commit),
  )
  await using _lock = await createRepoLock(layout).acquire(`commits-${repoId}`)
  const collected: CollectedRef[] = []
  const tips = sound.map(({ commit }) => commit)
  const renamed = await withoutMarkers(tips, known, { gitDir: into }).catch((error: unknown) => {
    throw refuse(error instanceof Error ? error.message : String(error))
  })
  for (const { ref, commit: was } of standing) {
    const commit = renamed.get(was) ?? was
    const name = `${collectedPrefix(id)}${ref.slice('refs/'.length)}`
    await git(['update-ref', name, commit], { gitDir: into })
    collected.push({ ref: name, commit, ...(commit === was ? {} : { was }) })
  }
  return collected
}

const isBranch = (name: string): boolean => name.startsWith('refs/heads/')

/**
 * What an earlier turn handed over and the agent has taken back since is nothing to land any more, and may be what it
 * was told to take out: it is kept as commits on no branch.
 */
async function setAside(
  { layout, repoId, id }: Pick<CollectOptions, 'layout' | 'repoId' | 'id'>,
  isOver: (name: string, commit: string) => boolean,
): Promise<void> {
  const gitDir = commitsDir(layout, repoId)
  await using _lock = await createRepoLock(layout).acquire(`commits-${repoId}`)
  for (const { ref, commit } of await listCollected(layout, repoId, id)) {
    if (!isOver(nameInside(id, ref), commit)) continue
    await git(['update-ref', `${collectedPrefix(id)}left/${commit}`, commit], { gitDir })
    await git(['update-ref', '-d', ref, commit], { gitDir })
  }
}

/**
 * All refs at once, and where that is refused each by itself: one object that is not sound, on whatever branch, would
 * hide everything else that the agent committed.
 */
async function takeSound(
  refs: readonly CollectedRef[],
  take: (refs: readonly CollectedRef[]) => Promise<void>,
  onRefused: OnRefused = () => {},
): Promise<readonly CollectedRef[]> {
  if (refs.length === 0) return []
  const refusal = await take(refs).then(() => null, onlyRefusal)
  if (refusal === null) return refs
  const until = Date.now() + singlyMs
  const sound: CollectedRef[] = []
  for (const each of refs) {
    const isAsked = refs.length > 1 && Date.now() < until
    const refused = isAsked ? await take([each]).then(() => null, onlyRefusal) : refusal
    if (refused === null) sound.push(each)
    else onRefused(each.ref, refused.message)
  }
  if (sound.length === 0) throw refusal
  return sound
}

function onlyRefusal(error: unknown): OrangeryError {
  if (error instanceof OrangeryError && error.code === refusedCode) return error
  throw error
}

/**
 * Takes in what the review has of an agent's commits and its own git did not hand out: a HEAD that was detached,
 * commits on no branch, and everything where the agent broke its configuration. Checked object by object too.
 */
export async function adoptCommits(
  options: Pick<CollectOptions, 'layout' | 'repoId' | 'id' | 'commonDir' | 'onRefused'> & {
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
  else if (options.isOnBranch === true && last === undefined)
    await setAside(options, (name) => name === 'HEAD')
  const ended = last === undefined || isBack || last.ref === 'HEAD' ? [] : [{ ref: 'HEAD', oid: last.oid }]
  const tips = [...options.tips, ...ended]
    .map(({ ref, oid }) => ({ ref: `${collectedPrefix(id)}${ref.replace(/^refs\//, '')}`, commit: oid }))
    .filter(({ ref, commit }) => isPlainRef(ref) && !held.has(`${ref} ${commit}`))
  if (tips.length === 0) return []
  const into = await openCommits(layout, repoId, commonDir)
  const known = new Set((await allRefs(commonDir)).map(({ commit }) => commit))
  const bring = async (refs: readonly CollectedRef[]) => {
    const revisions = [...new Set(refs.map(({ commit }) => commit)), ...without(known)].join('\n')
    const pack = await git(['pack-objects', '--revs', '--thin', '--stdout', '--quiet'], {
      gitDir: from,
      env: alsoObjectsOf(commonDir),
      input: `${revisions}\n`,
    })
    await takePack(into, pack, defaultMaxBytes)
    for (const { commit } of refs) await assertConnected(into, commit, known)
  }
  const sound = await takeSound(tips, bring, (ref, why) => options.onRefused?.(nameInside(id, ref), why))
  await using _lock = await createRepoLock(layout).acquire(`commits-${repoId}`)
  for (const { ref, commit } of sound) await git(['update-ref', ref, commit], { gitDir: into })
  return [...sound]
}

/** What a ref that we have collected is called in the agent's repository. */
export const nameInside = (id: DispatchId, ref: string): string => {
  const name = ref.slice(collectedPrefix(id).length)
  return name === 'HEAD' || name.startsWith('left/') ? name : `refs/${name}`
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

export async function allRefs(gitDir: string): Promise<CollectedRef[]> {
  return parseRefs((await git(['for-each-ref', `--format=${refFormat}`], { gitDir })).toString())
}

async function ask(inside: InsideRunner, args: readonly string[]): Promise<string> {
  const result = await inside(args, { maxBytes: listLimit, timeoutS: listSeconds })
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

const refusedCode = 'workspace.commits_refused'

function refuse(why: string): OrangeryError {
  return new OrangeryError(refusedCode, `commits of the agent: ${why}`, {
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

/** The refs of an agent's repository whose commits it has handed over, by their names there. */
export async function collectedRefs(layout: Layout, repoId: RepoId, id: DispatchId): Promise<string[]> {
  const collected = await listCollected(layout, repoId, id)
  return collected.map(({ ref }) => nameInside(id, ref))
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
  const own = known.filter(({ ref }) => ref.startsWith(collectedPrefix(id)))
  // One that was set aside since comes under another name, and may stand in the way of a name below or above its old one.
  for (const { ref, commit } of own) {
    const isInTheWay = collected.some(
      (each) => each.ref.startsWith(`${ref}/`) || ref.startsWith(`${each.ref}/`),
    )
    if (isInTheWay) await git(['update-ref', '-d', ref, commit], { gitDir: commonDir })
  }
  for (const { ref, commit } of collected) await git(['update-ref', ref, commit], { gitDir: commonDir })
  return collected.map((each) => ({ ...each, isNew: !known.some(({ ref }) => ref === each.ref) }))
}
