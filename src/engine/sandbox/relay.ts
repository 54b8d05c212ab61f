import { spawn, type ChildProcess } from 'node:child_process'
import { OrangeryError } from '../../shared/errors.ts'
import type { HostAlias } from '../base/sandbox.ts'
import { minimalEnv } from '../base/process.ts'
import { entryCommand, entryEnv } from '../base/entry.ts'
import { keepTail, onLines } from './lines.ts'
import type { SandboxPlan } from './plan.ts'

/** The program that listens in the sandbox's network namespace and speaks to the broker outside. */
export class Relay {
  readonly #plan: SandboxPlan
  #child: ChildProcess | null = null

  constructor(plan: SandboxPlan) {
    this.#plan = plan
  }

  async start(
    holderPid: number,
    agentPid: number,
    brokerSocket: string,
    hosts: readonly HostAlias[],
  ): Promise<void> {
    await this.stop()
    const { tools, shell } = this.#plan
    const [file, ...args] = entryCommand('relay')
    const child = spawn(
      tools.nsenter ?? 'nsenter',
      [
        // The agent's network and nothing else of it: in its mount namespace a program would load what the
        // agent put into /etc/ld.so.preload, with the holder's capabilities. (escape: relay-preload)
        `--user=/proc/${holderPid}/ns/user`,
        `--pid=/proc/${holderPid}/ns/pid`,
        `--net=/proc/${agentPid}/ns/net`,
        '--preserve-credentials',
        '--',
        shell.setpriv,
        '--pdeathsig',
        'KILL',
        '--',
        file,
        ...args,
        JSON.stringify({ socket: brokerSocket, hosts }),
      ],
      { env: { ...minimalEnv, ...entryEnv }, stdio: ['pipe', 'pipe', 'pipe'] },
    )
    this.#child = child
    const said = keepTail(child.stderr)
    child.stdin.on('error', () => {})
    await new Promise<void>((resolve, reject) => {
      onLines(child.stdout, (line) => {
        if (line.startsWith('ready')) resolve()
      })
      child.on('error', reject)
      child.on('exit', (code) => {
        reject(
          new OrangeryError(
            'sandbox.relay_failed',
            `the relay did not start: ${said() || `ended with ${code}`}`,
          ),
        )
      })
    })
  }

  async stop(): Promise<void> {
    const child = this.#child
    this.#child = null
    if (child === null || child.exitCode !== null || child.signalCode !== null) return
    await new Promise<void>((resolve) => {
      child.on('close', () => resolve())
      child.kill('SIGKILL')
    })
  }
}
