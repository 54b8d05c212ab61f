import { readdirSync } from 'node:fs'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CheckResult } from '../../../shared/doctor.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { isDispatchId, type DispatchId, type RepoId } from '../../../shared/ids.ts'
import { createRepoLock, sweepLocks } from '../../base/lock.ts'
import type { Layout } from '../../base/paths.ts'
import type { Workspace } from '../../base/workspace.ts'
import { readInvocationMeta, workspaceOf } from './invocation.ts'
import { isShownInside, parseMounts, readMountinfo } from './mounts.ts'
import { isInside, overlaps } from './pathSafety.ts'

/**
 * Who is at work on which folders. A running agent holds a lock named after its workspace, a landing one named
 * after its changeset with a note of the folders it writes; both are locks of the kernel and die with their
 * process. Each side first shows itself and then looks for the other, so at least one of the two sees it.
 */
export type ClaimOptions = {
  /** How long to wait for landings (or for running agents) to end; 0 asks once. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}
export type StartOptions = ClaimOptions & {
  /**
   * Looks for a landing that was cut off half-way, nobody being at it, on folders that are those of who starts. Null:
   * there is none. Else how it is brought to its end, which is done without the claim: gives what is in the way, if anything.
   */
  readonly cutOff?: CutOff | undefined
}
export type CutOff = (
  isMine: (places: readonly string[]) => Promise<boolean>,
) => Promise<(() => Promise<OrangeryError | null>) | null>
export type Running = {
  readonly id: DispatchId
  /** Null: its record cannot be read, so it may look at anything. */
  readonly paths: readonly string[] | null
}

/** Somebody who only asks whether a claim is alive holds its lock for a moment. */
const askingMs = 200

/**
 * Taken before a workspace is mounted and kept until the agent has ended. One runner per workspace: the
 * kernel would mount one upper layer twice and spoil it. A landing on the same folders is waited for, so
 * that no agent starts on half of one; one that was cut off there is brought to its end first.
 */
export async function claimWorkspace(
  layout: Layout,
  workspace: Pick<Workspace, 'repoId' | 'id' | 'roots' | 'strategy'>,
  options: StartOptions = {},
): Promise<AsyncDisposable> {
  const paths = seenPaths(workspace)
  const show = showNote(writingPath(layout, workspace), paths)
  return claimToStart(layout, workspace, paths, options, workspace.strategy === 'none' ? show : undefined)
}

async function claimToStart(
  layout: Layout,
  workspace: Pick<Workspace, 'repoId' | 'id'>,
  paths: readonly string[],
  { timeoutMs = 30_000, signal, cutOff }: StartOptions,
  show?: (claim: AsyncDisposableStack) => Promise<void>,
): Promise<AsyncDisposable> {
  const locks = createRepoLock(layout)
  const attempt = async (): Promise<AsyncDisposable | OrangeryError> => {
    await using claim = new AsyncDisposableStack()
    const held = await locks.acquire(runName(workspace), { timeoutMs: askingMs }).catch(passUnlessBusy)
    if (held === null) throw inUse(workspace.id)
    claim.use(held)
    await show?.(claim)
    const landing = await findLanding(layout, workspace.id, paths, written)
    if (landing !== null) return landingNow(landing)
    // A claim dies with its process, what that has written does not: from here on nobody lands, so a half stays one.
    const bringToEnd = await cutOff?.((places) => touches(places, paths))
    if (bringToEnd == null) return claim.move()
    await claim.disposeAsync()
    return (await bringToEnd()) ?? attempt()
  }
  return retry(timeoutMs, signal, attempt)
}

/**
 * Taken for a later turn before it has a record, and kept until it has ended: the workspace it runs in has the name of
 * the first, and were its own record torn, nobody could tell that it runs.
 */
export async function claimTurn(
  layout: Layout,
  { repoId, id }: Pick<Workspace, 'repoId' | 'id'>,
): Promise<AsyncDisposable> {
  const held = await createRepoLock(layout)
    .acquire(`turn-${repoId}-${id}`, { timeoutMs: askingMs })
    .catch(passUnlessBusy)
  if (held === null) throw inUse(id)
  return held
}

/**
 * Taken while folders are copied for a workspace that is in the making: for as long as that takes, whoever copies looks
 * at them as a running agent does, and a landing under way would be copied by halves.
 */
export async function claimCopying(
  layout: Layout,
  workspace: Pick<Workspace, 'repoId' | 'id'>,
  paths: readonly string[],
  options: StartOptions = {},
): Promise<AsyncDisposable> {
  return claimToStart(layout, workspace, paths, options, showNote(copyingPath(layout, workspace), paths))
}

const showNote = (note: string, paths: readonly string[]) => async (claim: AsyncDisposableStack) => {
  claim.defer(() => rm(note, { force: true }))
  await writeFile(note, JSON.stringify({ paths }), { mode: 0o600 })
}

/**
 * Who writes the real files of a folder in which one of these lies: it could put another in its place, or a link to one,
 * between our look at it and the mount. (escape: swapped-root)
 */
async function findWriterAbove(
  layout: Layout,
  paths: readonly string[],
): Promise<{ readonly id: DispatchId; readonly folder: string; readonly path: string } | null> {
  for (const name of namesIn(layout.locks)) {
    const [, repoId = '', id = ''] = /^real-([0-9a-f]{16})-(.+)\.json$/.exec(name) ?? []
    if (!isDispatchId(id)) continue
    const note = join(layout.locks, name)
    const found = ((await readNote(note))?.paths ?? []).flatMap((folder) =>
      paths.filter((path) => path !== folder && isInside(path, folder)).map((path) => ({ id, folder, path })),
    )[0]
    if (found === undefined) continue
    if (!(await isFree(layout, runName({ repoId: repoId as RepoId, id })))) return found
    await rm(note, { force: true })
  }
  return null
}

/** What a landing writes. */
export type Landing = {
  readonly id: DispatchId
  /** Folders: of two landings in one of them the second waits. */
  readonly paths: readonly string[]
  /** Repositories whose refs it moves, step by step. Landings need not keep apart there: the project's lock does that. */
  readonly repositories?: readonly string[]
}

/**
 * Taken around every write to the user's folders (apply, undo, land). Refused while another agent runs on
 * one of them: an overlay shows its lower folder live, and that agent would see half of the landing. So it would of the
 * refs, where the repository lies in a folder that it looks at.
 */
export async function claimLanding(
  layout: Layout,
  landing: Landing,
  options: ClaimOptions = {},
): Promise<AsyncDisposable> {
  const { id, paths, repositories = [] } = landing
  const locks = createRepoLock(layout)
  const note = notePath(layout, id)
  return retry(options.timeoutMs ?? 0, options.signal, async () => {
    await using _gate = await locks.acquire('gate')
    const other = await findLanding(layout, id, paths, ({ paths: folders }) => folders)
    if (other !== null) return landingNow(other)
    await using claim = new AsyncDisposableStack()
    const held = await locks.acquire(`land-${id}`, { timeoutMs: askingMs }).catch(passUnlessBusy)
    if (held === null) return landingNow(id)
    claim.use(held)
    claim.defer(() => rm(note, { force: true }))
    await writeFile(note, JSON.stringify({ id, paths, repositories }), { mode: 0o600 })
    const running = (await listRunningOn(layout, id, written(landing)))[0]
    return running === undefined ? claim.move() : agentRunning(running.id)
  })
}

/** That no agent can put another folder in the place of a root before it is mounted. */
export async function checkWriterAbove(
  layout: Layout,
  roots: readonly { readonly path: string }[],
): Promise<CheckResult[]> {
  const paths = roots.map(({ path }) => path)
  const writer = await findWriterAbove(layout, paths)
  if (writer === null) return []
  const { id, folder, path } = writer
  return [
    {
      name: 'writer above',
      ok: false,
      detail: `${path} lies in ${folder}, whose real files ${id} writes now: it could put another folder in its place`,
      fix: `Start it when that has ended, stop that (orangery dispatch kill ${id}), or name ${folder} itself.`,
    },
  ]
}

/** The dispatches other than `own` that run now on one of these folders. */
export function listRunningOn(layout: Layout, own: DispatchId, paths: readonly string[]): Promise<Running[]> {
  return listRunning(
    layout,
    async (run) => run.id !== own && (run.paths === null || (await touches(run.paths, paths))),
  )
}

/** Takes away the locks and notes of killed processes. */
export function sweepClaims(layout: Layout): Promise<void> {
  return sweepLocks(layout, (name) => {
    const id = name.replace(/^(?:land|run-[0-9a-f]{16})-/, '')
    const notes = [name, name.replace(/^run-/, 'real-')].map((note) => join(layout.locks, `${note}.json`))
    return id !== name && isDispatchId(id) ? notes : []
  })
}

/** The dispatches that run now, and the folders they look at. */
export async function listRunning(
  layout: Layout,
  matters: (running: Running) => boolean | Promise<boolean> = () => true,
): Promise<Running[]> {
  const live: Running[] = []
  for (const name of await readdir(layout.locks).catch((): string[] => [])) {
    const match = /^run-([0-9a-f]{16})-(.+)\.lock$/.exec(name)
    const id = match?.[2] ?? ''
    if (match === null || !isDispatchId(id)) continue
    const repoId = match[1] as RepoId
    const meta = await readInvocationMeta(layout, repoId, id).catch(() => null)
    const paths =
      meta === null
        ? ((await readNote(copyingPath(layout, { repoId, id })))?.paths ?? null)
        : seenPaths(workspaceOf(layout, repoId, meta))
    const running = { id, paths }
    if ((await matters(running)) && !(await isFree(layout, runName({ repoId, id })))) live.push(running)
  }
  return live
}

/**
 * Host folders an agent in this workspace looks at while it runs: of a copy there are none, and the refs of a worktree
 * sandbox stand still.
 */
function seenPaths({ roots, strategy }: Pick<Workspace, 'roots' | 'strategy'>): string[] {
  return roots
    .filter((root) => (root.role === 'project' || strategy !== 'worktree') && root.access !== 'hidden')
    .map((root) => (root.mount.kind === 'overlay' ? root.mount.lower : root.mount.source))
}

async function findLanding(
  layout: Layout,
  own: DispatchId,
  paths: readonly string[],
  /** What of it is in the way of who asks. */
  of: (landing: Note) => readonly string[],
): Promise<DispatchId | null> {
  for (const name of namesIn(layout.locks)) {
    const id = /^land-(.+)\.json$/.exec(name)?.[1] ?? ''
    if (!isDispatchId(id) || id === own) continue
    const noted = await readNote(notePath(layout, id))
    if (noted !== null && !(await touches(of(noted), paths))) continue
    if (!(await isFree(layout, `land-${id}`))) return id
    await rm(notePath(layout, id), { force: true })
  }
  return null
}

// Our own small folder, at once: an agent waits for this.
function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

type Note = Pick<Landing, 'paths' | 'repositories'>
const written = ({ paths, repositories = [] }: Note): readonly string[] => [...paths, ...repositories]

/** Null: it is being written just now, so it may be about anything. */
async function readNote(path: string): Promise<Note | null> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Note
  } catch {
    return null
  }
}

/** Whether a lock's holder is dead or gone; the lock's file goes with the answer. */
async function isFree(layout: Layout, name: string): Promise<boolean> {
  await using held = await createRepoLock(layout).tryAcquire(name)
  return held !== null
}

/** Also where a bind mount shows the folders of one at the paths of the other. */
export async function touches(some: readonly string[], others: readonly string[]): Promise<boolean> {
  const meets = (are: (path: string, other: string) => boolean) =>
    some.some((path) => others.some((other) => are(path, other)))
  if (meets(overlaps)) return true
  const mounts = parseMounts(await readMountinfo())
  return meets((path, other) => isShownInside(path, other, mounts) || isShownInside(other, path, mounts))
}
const runName = ({ repoId, id }: Pick<Workspace, 'repoId' | 'id'>): string => `run-${repoId}-${id}`
/** What is copied for a workspace that has no record yet. */
const copyingPath = (layout: Layout, workspace: Pick<Workspace, 'repoId' | 'id'>): string =>
  join(layout.locks, `${runName(workspace)}.json`)
/** Whose real files it writes. */
const writingPath = (layout: Layout, { repoId, id }: Pick<Workspace, 'repoId' | 'id'>): string =>
  join(layout.locks, `real-${repoId}-${id}.json`)
const notePath = (layout: Layout, id: DispatchId): string => join(layout.locks, `land-${id}.json`)

async function retry(
  timeoutMs: number,
  signal: AbortSignal | undefined,
  attempt: () => Promise<AsyncDisposable | OrangeryError>,
): Promise<AsyncDisposable> {
  const deadline = performance.now() + timeoutMs
  for (let pause = 10; ; pause = Math.min(pause * 1.5, 250)) {
    const result = await attempt()
    if (!(result instanceof OrangeryError)) return result
    if (performance.now() + pause > deadline) throw result
    await sleep(pause * (0.5 + Math.random()), undefined, signal === undefined ? {} : { signal })
  }
}

function passUnlessBusy(error: unknown): null {
  if (error instanceof OrangeryError && error.kind === 'busy') return null
  throw error
}

function inUse(id: DispatchId): OrangeryError {
  return new OrangeryError('workspace.in_use', `${id}: something runs in this workspace already`, {
    kind: 'busy',
    hint: 'One workspace carries one agent at a time.',
  })
}

function landingNow(id: DispatchId): OrangeryError {
  return new OrangeryError(
    'workspace.landing',
    `${id}: its changes are landing in the same folders just now`,
    {
      kind: 'busy',
      hint: 'Try again in a moment.',
    },
  )
}

function agentRunning(id: DispatchId): OrangeryError {
  return new OrangeryError(
    'workspace.agent_running',
    `${id}: this agent is running on the same folders or their repository`,
    {
      kind: 'busy',
      hint: 'It would see half of the changes. Let them land when it has ended (--when-idle), or stop it first.',
      details: { running: id },
    },
  )
}
