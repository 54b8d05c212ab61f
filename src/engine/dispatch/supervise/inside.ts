import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Contract } from '../../base/contract.ts'
import { readFrozenRefs } from '../../base/frozenRefs.ts'
import { gitCommand } from '../../base/git.ts'
import type { RunResult } from '../../base/process.ts'
import type { SandboxRequest } from '../../base/sandbox.ts'
import type { Workspace } from '../../base/workspace.ts'
import type { Captured } from '../../changeset/index.ts'
import { agentHome, planSandbox, startSandbox } from '../../sandbox/index.ts'
import {
  adoptCommits,
  collectCommits,
  frameGit,
  leftGitObjects,
  nameInside,
  readInvocationMeta,
  updateInvocation,
  type CollectedRef,
  type InsideRunner,
  type OnRefused,
} from '../../workspace/index.ts'
import { pipeIo } from './agentIo.ts'
import { isOfFirst } from '../handlers/otherCommits.ts'
import type { Parts } from '../parts.ts'
import { seenInside } from '../prepare/place.ts'

const timeLimitS = 120
const mostErrorBytes = 64 * 1024
const frame = 'commits.git'

/** What the agent was held to. After its end nothing of it is held to less. */
type Held = Pick<Contract, 'hide' | 'limits'>

/**
 * A second sandbox over what an agent left, read-only and without network, in which our git reads its objects and
 * refs; only bytes come out. Called when the agent has ended.
 */
function insideRunner(parts: Parts, workspace: Workspace, held: Held, home: string): InsideRunner {
  return async (args, { input, maxBytes, timeoutS = timeLimitS }) => {
    const request = insideRequest(parts, workspace, held, home, args, timeoutS)
    const plan = planSandbox(request, await parts.host())
    // Real files would be opened anew by their descriptors. (escape: reopened-descriptor)
    using io = await pipeIo(parts.runtime)
    await using sandbox = await startSandbox(plan, io.sandbox)
    const stdout = new Kept(maxBytes)
    const stderr = new Kept(mostErrorBytes)
    io.start((chunk, name) => (name === 'stdout' ? stdout : stderr).take(chunk))
    if (input !== undefined) io.write(input)
    io.endInput()
    sandbox.release()
    const { exitCode, signal, limits } = await sandbox.ended
    await io.drained()
    if (stdout.isOver) return failed(signal, `more than ${maxBytes} bytes`)
    if (limits.length > 0) return failed(signal, `it ran into its limit: ${limits.join(', ')}`)
    return { code: exitCode, signal, stdout: stdout.bytes, stderr: stderr.bytes }
  }
}

const failed = (signal: RunResult['signal'], why: string): RunResult => ({
  code: null,
  signal,
  stdout: Buffer.alloc(0),
  stderr: Buffer.from(why),
})

/** Output up to a bound. */
class Kept {
  readonly #most: number
  readonly #chunks: Buffer[] = []
  #size = 0

  constructor(most: number) {
    this.#most = most
  }

  /** False: no more of it is wanted. */
  take(chunk: Buffer): boolean {
    this.#size += chunk.length
    if (!this.isOver) this.#chunks.push(chunk)
    return !this.isOver
  }

  get isOver(): boolean {
    return this.#size > this.#most
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks)
  }
}

/** Level 1, whatever the agent ran at: its words are only data here. */
export function insideRequest(
  { layout, runtime, configDir }: Pick<Parts, 'layout' | 'runtime' | 'configDir'>,
  workspace: Workspace,
  { hide, limits }: Held,
  home: string,
  args: readonly string[],
  timeoutS: number,
): SandboxRequest {
  const git = gitCommand(args, { gitDir: join(agentHome, frame) })
  // The user's PATH may lead into a root: there git would be a program of the agent's.
  const { PATH: _, ...env } = git.env
  return {
    id: workspace.id,
    level: 1,
    workspace,
    command: [git.file, ...git.args],
    cwd: agentHome,
    env,
    files: 'ro',
    writableFiles: [],
    network: 'none',
    limits: { ...limits, timeout_s: timeoutS },
    grants: [],
    home,
    hide,
    secretDirs: [layout.dataDir, runtime, configDir],
    terminal: false,
  }
}

/** Brings the commits of an agent that has ended into our own repository, where it made any. */
async function collectAgentCommits(
  parts: Parts,
  commonDir: string | null,
  workspace: Workspace,
  held: Held | null,
  onRefused: OnRefused,
): Promise<readonly CollectedRef[]> {
  if (commonDir === null || workspace.strategy === 'none') return []
  if (!(await leftGitObjects(workspace, commonDir))) return []
  if (held === null) throw new Error('commits of the agent: its contract cannot be read')
  const { id, repoId, roots } = workspace
  const home = join(workspace.dir, 'inside.home')
  await rm(home, { recursive: true, force: true })
  await mkdir(home, { recursive: true, mode: 0o700 })
  try {
    await frameGit(join(home, frame), commonDir, seenInside(workspace, commonDir))
    const inside = insideRunner(parts, workspace, held, home)
    const git = roots.find(({ path }) => path === commonDir)
    const frozen = git === undefined ? null : await readFrozenRefs(git.mount)
    const refs = frozen === null ? {} : { refs: frozen.refs }
    const { layout } = parts
    return await collectCommits({ layout, repoId, id, commonDir, inside, onRefused, ...refs })
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}

/** The same, as notes for the event log: a history that cannot be had does not end a dispatch badly. */
export async function noteAgentCommits(
  parts: Parts,
  commonDir: string | null,
  workspace: Workspace,
  /** Null where it is not known: then its git is not asked. */
  held: Held | null,
  /** What the review has of them, read without the agent's git. */
  captured: NonNullable<Captured['commits']>,
  note: (text: string) => void,
): Promise<boolean> {
  const say = (reason: unknown) => note(reason instanceof Error ? reason.message : String(reason))
  const collected: CollectedRef[] = []
  const missing = new Map<string, string>()
  const onRefused = (ref: string, why: string) => void missing.set(ref, why)
  let refused: { readonly reason: unknown } | null = null
  try {
    collected.push(...(await collectAgentCommits(parts, commonDir, workspace, held, onRefused)))
  } catch (reason) {
    refused = { reason }
  }
  try {
    const adopted = commonDir === null ? [] : await adopt(parts, commonDir, workspace, captured, onRefused)
    collected.push(...adopted)
    // What its own git did not hand out was read without it.
    if (adopted.length === 0 && refused !== null) say(refused.reason)
  } catch (reason) {
    say(reason)
    refused = { reason }
  }
  // What its own git could not hand out soundly, its objects may.
  for (const { ref } of collected) missing.delete(nameInside(workspace.id, ref))
  for (const [ref, why] of missing) note(`commits of ${ref} are left behind: ${why}`)
  await noteMissing(parts, workspace, missing).catch(say)
  if (collected.length > 0)
    note(`commits of the agent are kept: ${collected.map(({ ref }) => ref).join(', ')}`)
  if (collected.some(({ was }) => was !== undefined))
    note('commits of the agent held a marker of Orangery; they were written anew without it')
  return collected.length > 0 || missing.size > 0 || refused !== null
}

/** For the review and the landing; of an earlier turn, what has come since is not missing any more. */
async function noteMissing(
  { layout }: Parts,
  { repoId, id }: Workspace,
  missing: ReadonlyMap<string, string>,
): Promise<void> {
  const commits_refused = [...missing].map(([ref, why]) => ({ ref, why }))
  const meta = await readInvocationMeta(layout, repoId, id).catch(() => null)
  if (meta === null || (commits_refused.length === 0 && meta.commits_refused === undefined)) return
  await updateInvocation(layout, repoId, id, { commits_refused })
}

function adopt(
  { layout }: Parts,
  commonDir: string,
  { id, repoId, strategy }: Workspace,
  captured: NonNullable<Captured['commits']>,
  onRefused: OnRefused,
): Promise<CollectedRef[]> {
  const tips = captured.filter((each) => isOfFirst(each, commonDir))
  const isOnBranch = strategy === 'worktree'
  const from = layout.objects(repoId)
  return adoptCommits({ layout, repoId, id, commonDir, from, tips, isOnBranch, onRefused })
}
