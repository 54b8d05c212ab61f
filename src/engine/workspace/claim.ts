import { readdirSync } from 'node:fs'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { OrangeryError } from '../../shared/errors.ts'
import { isDispatchId, type DispatchId, type RepoId } from '../../shared/ids.ts'
import { createRepoLock, sweepLocks } from '../base/lock.ts'
import type { Layout } from '../base/paths.ts'
import type { Workspace } from '../base/workspace.ts'
import { readInvocationMeta, workspaceOf } from './invocation.ts'
import { isShownInside, parseMounts, readMountinfo } from './mounts.ts'
import { overlaps } from './pathSafety.ts'

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
 * that no agent starts on half of one.
 */
export async function claimWorkspace(
  layout: Layout,
  workspace: Pick<Workspace, 'repoId' | 'id' | 'roots'>,
  options: ClaimOptions = {},
): Promise<AsyncDisposable> {
  const locks = createRepoLock(layout)
  return retry(options.timeoutMs ?? 30_000, options.signal, async () => {
    const held = await locks.acquire(runName(workspace), { timeoutMs: askingMs }).catch(passUnlessBusy)
    if (held === null) throw inUse(workspace.id)
    const landing = await findLanding(layout, workspace.id, seenPaths(workspace))
    if (landing === null) return held
    await held[Symbol.asyncDispose]()
    return landingNow(landing)
  })
}

/**
 * Taken while folders are copied for a workspace that is in the making: for as long as that takes, whoever copies looks
 * at them as a running agent does, and a landing under way would be copied by halves.
 */
export async function claimCopying(
  layout: Layout,
  workspace: Pick<Workspace, 'repoId' | 'id'>,
  paths: readonly string[],
  options: ClaimOptions = {},
): Promise<AsyncDisposable> {
  const locks = createRepoLock(layout)
  const note = copyingPath(layout, workspace)
  return retry(options.timeoutMs ?? 30_000, options.signal, async () => {
    await using claim = new AsyncDisposableStack()
    const held = await locks.acquire(runName(workspace), { timeoutMs: askingMs }).catch(passUnlessBusy)
    if (held === null) throw inUse(workspace.id)
    claim.use(held)
    claim.defer(() => rm(note, { force: true }))
    await writeFile(note, JSON.stringify({ paths }), { mode: 0o600 })
    const landing = await findLanding(layout, workspace.id, paths)
    return landing === null ? claim.move() : landingNow(landing)
  })
}

/**
 * Taken around every write to the user's folders (apply, undo, land). Refused while another agent runs on
 * one of them: an overlay shows its lower folder live, and that agent would see half of the landing.
 */
export async function claimLanding(
  layout: Layout,
  landing: { readonly id: DispatchId; readonly paths: readonly string[] },
  options: ClaimOptions = {},
): Promise<AsyncDisposable> {
  const { id, paths } = landing
  const locks = createRepoLock(layout)
  const note = notePath(layout, id)
  return retry(options.timeoutMs ?? 0, options.signal, async () => {
    await using _gate = await locks.acquire('gate')
    const other = await findLanding(layout, id, paths)
    if (other !== null) return landingNow(other)
    await using claim = new AsyncDisposableStack()
    const held = await locks.acquire(`land-${id}`, { timeoutMs: askingMs }).catch(passUnlessBusy)
    if (held === null) return landingNow(id)
    claim.use(held)
    claim.defer(() => rm(note, { force: true }))
    await writeFile(note, JSON.stringify({ id, paths }), { mode: 0o600 })
    const running = (await listRunningOn(layout, id, paths))[0]
    return running === undefined ? claim.move() : agentRunning(running.id)
  })
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
    return id !== name && isDispatchId(id) ? [join(layout.locks, `${name}.json`)] : []
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
        ? await readNote(copyingPath(layout, { repoId, id }))
        : seenPaths(workspaceOf(layout, repoId, meta))
    const running = { id, paths }
    if ((await matters(running)) && !(await isFree(layout, runName({ repoId, id })))) live.push(running)
  }
  return live
}

/** Host folders an agent in this workspace looks at while it runs: of a copy there are none. */
function seenPaths(workspace: Pick<Workspace, 'roots'>): string[] {
  return workspace.roots
    .filter((root) => root.role === 'project' && root.access !== 'hidden')
    .map((root) => (root.mount.kind === 'overlay' ? root.mount.lower : root.mount.source))
}

async function findLanding(
  layout: Layout,
  own: DispatchId,
  paths: readonly string[],
): Promise<DispatchId | null> {
  for (const name of namesIn(layout.locks)) {
    const id = /^land-(.+)\.json$/.exec(name)?.[1] ?? ''
    if (!isDispatchId(id) || id === own) continue
    const noted = await readNote(notePath(layout, id))
    if (noted !== null && !(await touches(noted, paths))) continue
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

/** Null: it is being written just now, so it may be about anything. */
async function readNote(path: string): Promise<readonly string[] | null> {
  try {
    return (JSON.parse(await readFile(path, 'utf8')) as { paths: string[] }).paths
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
async function touches(some: readonly string[], others: readonly string[]): Promise<boolean> {
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
  return new OrangeryError('workspace.agent_running', `${id}: this agent is running on the same folders`, {
    kind: 'busy',
    hint: 'It would see half of the changes. Let them land when it has ended (--when-idle), or stop it first.',
    details: { running: id },
  })
}
