import { mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { readFrozenRefs } from '../base/frozenRefs.ts'
import type { SandboxRequest } from '../base/sandbox.ts'
import type { Workspace } from '../base/workspace.ts'
import type { Captured } from '../changeset/index.ts'
import { planSandbox, startSandbox } from '../sandbox/index.ts'
import {
  adoptCommits,
  collectCommits,
  leftGitObjects,
  type CollectedRef,
  type InsideRunner,
} from '../workspace/index.ts'
import type { Parts } from './parts.ts'

const timeLimitS = 120

/**
 * A second sandbox over what an agent left, read-only and without network: whatever the agent planted in its
 * `.git` takes effect in there, and only bytes come out. Called when the agent has ended.
 */
function insideRunner(parts: Parts, workspace: Workspace, checkout: string): InsideRunner {
  return async (command, { input, maxBytes, timeoutS = timeLimitS }) => {
    const folder = workspace.dir
    const paths = [join(folder, 'inside.in'), join(folder, 'inside.out'), join(folder, 'inside.err')] as const
    try {
      await using stdin = await open(paths[0], 'w+', 0o600)
      await using stdout = await open(paths[1], 'w+', 0o600)
      await using stderr = await open(paths[2], 'w+', 0o600)
      if (input !== undefined) await stdin.write(input, 0)
      const plan = planSandbox(requestFor(parts, workspace, checkout, command, timeoutS), await parts.host())
      await using sandbox = await startSandbox(plan, {
        stdin: stdin.fd,
        stdout: stdout.fd,
        stderr: stderr.fd,
      })
      sandbox.release()
      const ended = await sandbox.ended
      const { size } = await stdout.stat()
      const tooLarge = size > maxBytes
      return {
        code: tooLarge ? null : ended.exitCode,
        signal: ended.signal,
        stdout: tooLarge ? Buffer.alloc(0) : await readAll(stdout, size),
        stderr: tooLarge
          ? Buffer.from(`more than ${maxBytes} bytes`)
          : await readAll(stderr, Math.min((await stderr.stat()).size, 64 * 1024)),
      }
    } finally {
      await Promise.all(paths.map((path) => rm(path, { force: true })))
    }
  }
}

async function readAll(file: Awaited<ReturnType<typeof open>>, size: number): Promise<Buffer> {
  const bytes = Buffer.alloc(size)
  const { bytesRead } = await file.read(bytes, 0, size, 0)
  return bytes.subarray(0, bytesRead)
}

/** Level 1, whatever the agent ran at: its words are only data here. */
function requestFor(
  parts: Parts,
  workspace: Workspace,
  checkout: string,
  command: SandboxRequest['command'],
  timeoutS: number,
): SandboxRequest {
  return {
    id: workspace.id,
    level: 1,
    workspace,
    command,
    cwd: checkout,
    env: {},
    files: 'ro',
    writableFiles: [],
    network: 'none',
    limits: { timeout_s: timeoutS },
    grants: [],
    home: join(workspace.dir, 'inside.home'),
    hide: [],
    secretDirs: [parts.layout.dataDir, parts.runtime],
    terminal: false,
  }
}

/** Brings the commits of an agent that has ended into our own repository, where it made any. */
async function collectAgentCommits(
  parts: Parts,
  commonDir: string | null,
  workspace: Workspace,
): Promise<readonly CollectedRef[]> {
  if (commonDir === null || workspace.strategy === 'none') return []
  if (!(await leftGitObjects(workspace, commonDir))) return []
  const { id, repoId, roots } = workspace
  const checkout = roots.find((root) => root.role === 'project' && root.access !== 'hidden')?.target ?? '/'
  const home = join(workspace.dir, 'inside.home')
  await mkdir(home, { recursive: true, mode: 0o700 })
  try {
    const inside = insideRunner(parts, workspace, checkout)
    const git = roots.find(({ path }) => path === commonDir)
    const frozen = git === undefined ? null : await readFrozenRefs(git.mount)
    const refs = frozen === null ? {} : { refs: frozen.refs }
    return await collectCommits({ layout: parts.layout, repoId, id, commonDir, checkout, inside, ...refs })
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}

/** The same, as notes for the event log: a history that cannot be had does not end a dispatch badly. */
export async function noteAgentCommits(
  parts: Parts,
  commonDir: string | null,
  workspace: Workspace,
  /** What the review has of them, read without the agent's git. */
  captured: NonNullable<Captured['commits']>,
  note: (text: string) => void,
): Promise<boolean> {
  const say = (reason: unknown) => note(reason instanceof Error ? reason.message : String(reason))
  const collected: CollectedRef[] = []
  let refused: { readonly reason: unknown } | null = null
  try {
    collected.push(...(await collectAgentCommits(parts, commonDir, workspace)))
  } catch (reason) {
    refused = { reason }
  }
  try {
    const adopted = commonDir === null ? [] : await adopt(parts, commonDir, workspace, captured)
    collected.push(...adopted)
    // What its own git did not hand out was read without it.
    if (adopted.length === 0 && refused !== null) say(refused.reason)
  } catch (reason) {
    say(reason)
    refused = { reason }
  }
  if (collected.length > 0)
    note(`commits of the agent are kept: ${collected.map(({ ref }) => ref).join(', ')}`)
  if (collected.some(({ was }) => was !== undefined))
    note('commits of the agent held a marker of Orangery; they were written anew without it')
  return collected.length > 0 || refused !== null
}

function adopt(
  { layout }: Parts,
  commonDir: string,
  { id, repoId, strategy }: Workspace,
  captured: NonNullable<Captured['commits']>,
): Promise<CollectedRef[]> {
  const tips = captured.filter(
    ({ root, folder, submodule }) =>
      folder === undefined && submodule === undefined && [root, join(root, '.git')].includes(commonDir),
  )
  const isOnBranch = strategy === 'worktree'
  return adoptCommits({ layout, repoId, id, commonDir, from: layout.objects(repoId), tips, isOnBranch })
}
