import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { OrangeryError } from '../../shared/errors.ts'
import { isDispatchId, type DispatchId } from '../../shared/ids.ts'
import { ensurePrivateDir } from '../base/files.ts'
import { createRepoLock } from '../base/lock.ts'
import type { Layout } from '../base/paths.ts'
import type { Workspace } from '../base/workspace.ts'
import { overlaps } from './pathSafety.ts'

/**
 * Who is at work on which folders. A running agent claims what its view is made of, a landing claims what it
 * writes; each claim is a lock of the kernel that dies with its process, so a claim never outlives its holder.
 * Claims are compared and made under one short lock, `gate`; it is never held while an agent runs.
 */
type ClaimKind = 'run' | 'land'
type ClaimInfo = { readonly kind: ClaimKind; readonly id: DispatchId; readonly paths: readonly string[] }

export type ClaimOptions = {
  /** How long to wait for landings (or for running agents) to end; 0 asks once. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

/**
 * Taken before a workspace is mounted and kept until the agent has ended. One runner per workspace: the
 * kernel would mount one upper layer twice and spoil it. A landing on the same folders is waited for, so
 * that no agent starts on half of one.
 */
export async function claimWorkspace(
  layout: Layout,
  workspace: Workspace,
  options: ClaimOptions = {},
): Promise<AsyncDisposable> {
  const info: ClaimInfo = { kind: 'run', id: workspace.id, paths: seenPaths(workspace) }
  return claim(layout, info, options.timeoutMs ?? 30_000, options.signal, (other) => {
    if (other.kind === 'run') return null
    return new OrangeryError(
      'workspace.landing',
      `${other.id}: its changes are landing in the same folders just now`,
      {
        kind: 'busy',
        hint: 'Try again in a moment.',
      },
    )
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
  const info: ClaimInfo = { kind: 'land', id: landing.id, paths: landing.paths }
  return claim(layout, info, options.timeoutMs ?? 0, options.signal, (other) =>
    other.kind === 'land'
      ? new OrangeryError(
          'workspace.landing',
          `${other.id}: its changes are landing in the same folders just now`,
          {
            kind: 'busy',
            hint: 'Try again in a moment.',
          },
        )
      : new OrangeryError(
          'workspace.agent_running',
          `${other.id}: this agent is running on the same folders`,
          {
            kind: 'busy',
            hint: 'It would see half of the changes. Land them when it has ended, or stop it first.',
            details: { running: other.id },
          },
        ),
  )
}

/** Ids of the dispatches that run now, and what they look at. */
export async function listRunning(layout: Layout): Promise<ClaimInfo[]> {
  await using _gate = await createRepoLock(layout).acquire('gate')
  return (await liveClaims(layout, () => true)).filter((info) => info.kind === 'run')
}

/** Host folders an agent in this workspace looks at while it runs: of a copy there are none. */
function seenPaths(workspace: Workspace): string[] {
  return workspace.roots
    .filter((root) => root.role === 'project' && root.access !== 'hidden')
    .map((root) => (root.mount.kind === 'overlay' ? root.mount.lower : root.mount.source))
}

async function claim(
  layout: Layout,
  info: ClaimInfo,
  timeoutMs: number,
  signal: AbortSignal | undefined,
  refusal: (other: ClaimInfo) => OrangeryError | null,
): Promise<AsyncDisposable> {
  const locks = createRepoLock(layout)
  await ensurePrivateDir(layout.locks)
  const deadline = performance.now() + timeoutMs
  for (let pause = 10; ; pause = Math.min(pause * 1.5, 250)) {
    const attempt = await tryClaim(layout, info, refusal)
    if ('held' in attempt) return release(layout, info, attempt.held)
    if (performance.now() + pause > deadline) throw attempt.refused
    await sleep(pause, undefined, signal === undefined ? {} : { signal })
  }

  async function tryClaim(
    layout: Layout,
    info: ClaimInfo,
    refusal: (other: ClaimInfo) => OrangeryError | null,
  ): Promise<{ held: AsyncDisposable } | { refused: OrangeryError }> {
    await using _gate = await locks.acquire('gate')
    const relevant = (other: ClaimInfo) =>
      other.id !== info.id &&
      refusal(other) !== null &&
      other.paths.some((path) => info.paths.some((mine) => overlaps(path, mine)))
    const [other] = await liveClaims(layout, relevant)
    const refused = other === undefined ? null : refusal(other)
    if (refused !== null) return { refused }
    const held = await locks.tryAcquire(nameOf(info))
    if (held === null) return { refused: alreadyClaimed(info) }
    await writeFile(infoPath(layout, info), JSON.stringify(info), { mode: 0o600 })
    return { held }
  }
}

function alreadyClaimed(info: ClaimInfo): OrangeryError {
  return info.kind === 'run'
    ? new OrangeryError('workspace.in_use', `${info.id}: something runs in this workspace already`, {
        kind: 'busy',
        hint: 'One workspace carries one agent at a time.',
      })
    : new OrangeryError('workspace.landing', `${info.id}: its changes are landing already`, { kind: 'busy' })
}

/** Files of a claim are only made and removed under the gate, so nobody waits on a lock that was unlinked. */
function release(layout: Layout, info: ClaimInfo, held: AsyncDisposable): AsyncDisposable {
  return {
    async [Symbol.asyncDispose]() {
      await using _gate = await createRepoLock(layout).acquire('gate')
      await held[Symbol.asyncDispose]()
      await forget(layout, info)
    },
  }
}

/** Claims whose holder lives, among those that matter; what dead holders left behind is cleared away. */
async function liveClaims(layout: Layout, matters: (info: ClaimInfo) => boolean): Promise<ClaimInfo[]> {
  const locks = createRepoLock(layout)
  const live: ClaimInfo[] = []
  for (const name of await readdir(layout.locks).catch((): string[] => [])) {
    const match = /^(run|land)-(.+)\.json$/.exec(name)
    if (match === null || !isDispatchId(match[2] ?? '')) continue
    const info = await readInfo(join(layout.locks, name))
    if (info === null || !matters(info)) continue
    const dead = await locks.tryAcquire(nameOf(info))
    if (dead === null) {
      live.push(info)
      continue
    }
    await dead[Symbol.asyncDispose]()
    await forget(layout, info)
  }
  return live
}

async function readInfo(path: string): Promise<ClaimInfo | null> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as ClaimInfo
  } catch {
    // Written under the gate, so only a crash leaves half of one, and then its holder is dead.
    return null
  }
}

async function forget(layout: Layout, info: ClaimInfo): Promise<void> {
  await rm(infoPath(layout, info), { force: true })
  await rm(join(layout.locks, `${nameOf(info)}.lock`), { force: true })
}

const nameOf = (info: ClaimInfo): string => `${info.kind}-${info.id}`
const infoPath = (layout: Layout, info: ClaimInfo): string => join(layout.locks, `${nameOf(info)}.json`)
