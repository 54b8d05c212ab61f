import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { DispatchId } from '../../shared/ids.ts'
import type { SandboxRequest } from '../base/sandbox.ts'
import type { Workspace } from '../base/workspace.ts'
import { planSandbox, startSandbox } from '../sandbox/index.ts'
import { collectCommits, leftGitObjects, type CollectedRef, type InsideRunner } from '../workspace/index.ts'
import type { Parts } from './parts.ts'

const timeLimitS = 120

/**
 * A second sandbox over what an agent left, read-only and without network: whatever the agent planted in its
 * `.git` takes effect in there, and only bytes come out. Called when the agent has ended.
 */
function insideRunner(parts: Parts, request: SandboxRequest): InsideRunner {
  return async (command, { input, maxBytes }) => {
    const folder = request.workspace.dir
    const paths = [join(folder, 'inside.in'), join(folder, 'inside.out'), join(folder, 'inside.err')] as const
    try {
      await using stdin = await open(paths[0], 'w+', 0o600)
      await using stdout = await open(paths[1], 'w+', 0o600)
      await using stderr = await open(paths[2], 'w+', 0o600)
      if (input !== undefined) await stdin.write(input, 0)
      const plan = planSandbox(
        {
          ...request,
          // Whatever the agent ran at: here its words are only data.
          level: 1,
          command,
          files: 'ro',
          writableFiles: [],
          network: 'none',
          limits: { timeout_s: timeLimitS },
          terminal: false,
        },
        await parts.host(),
      )
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

/** Brings the commits of an agent that has ended into our own repository, where it made any. */
export async function collectAgentCommits(
  parts: Parts,
  id: DispatchId,
  commonDir: string | null,
  workspace: Workspace,
  request: () => SandboxRequest,
): Promise<readonly CollectedRef[]> {
  if (commonDir === null || !(await leftGitObjects(workspace, commonDir))) return []
  const { repoId, roots } = workspace
  const checkout = roots.find((root) => root.role === 'project')?.target ?? '/'
  const inside = insideRunner(parts, request())
  return collectCommits({ layout: parts.layout, repoId, id, commonDir, checkout, inside })
}
