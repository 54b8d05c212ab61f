import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import type { SandboxRequest } from '../../src/engine/base/sandbox.ts'
import { asItIs } from '../../src/engine/sandbox/fixture.ts'
import { detectHost, planSandbox, startSandbox } from '../../src/engine/sandbox/index.ts'

export type Order = {
  readonly dataDir: string
  readonly request: SandboxRequest
  readonly isSandboxed: boolean
}

// Starts a probe and watches it, as the process of a dispatch does, so that it can be killed. Without the sandbox it
// does what a careless one does: it starts the agent's command as it is.
const { dataDir, request, isSandboxed } = JSON.parse(await text(process.stdin)) as Order
if (isSandboxed) {
  const host = asItIs(await detectHost(dataDir))
  const io = { stdin: 'ignore', stdout: 1, stderr: 2 } as const
  const sandbox = await startSandbox(planSandbox(request, host), io)
  sandbox.release()
  await sandbox.ended
} else {
  const [file, ...args] = request.command
  const env = { ...process.env, HOME: request.home }
  const child = spawn(file, args, { cwd: request.cwd, env, stdio: 'ignore' })
  await new Promise((resolve) => child.once('close', resolve))
}
