import { spawn, type ChildProcess, type ChildProcessByStdio } from 'node:child_process'
import { open } from 'node:fs/promises'
import type { Readable, Writable } from 'node:stream'
import { OrangeryError } from '../../shared/errors.ts'
import { entryCommand, entryEnv } from '../base/entry.ts'
import { minimalEnv } from '../base/process.ts'
import { proxyPort, type HostAlias } from '../base/sandbox.ts'
import { keepTail, onLines } from './lines.ts'
import type { SandboxPlan } from './plan.ts'
import { sleeping } from './sleeper.ts'
import { hostsFile, hostsPath } from './view.ts'

const pipes: ('pipe' | 'ipc')[] = ['pipe', 'pipe', 'pipe']
type RelayProcess = ChildProcessByStdio<Writable, Readable, Readable>

/** The program that listens in the sandbox's network namespace and speaks to the broker outside. */
export class Relay {
  readonly #plan: SandboxPlan
  #child: RelayProcess | null = null
  #onWord: ((word: string) => void) | null = null

  constructor(plan: SandboxPlan) {
    this.#plan = plan
  }

  get #isAlive(): boolean {
    return this.#child !== null && this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** Resolves when the relay says one of these, rejects if it ends instead. */
  #nextWord(child: RelayProcess, said: () => string, words: RegExp): Promise<void> {
    return new Promise((resolve, reject) => {
      const ended = (code: number | null) => {
        // Stopped by us, with the sandbox: there is nobody left to be told.
        if (this.#child !== child) return done()
        const why = said().split('\n').at(-1) || `it ended with ${code}`
        fail(new OrangeryError('sandbox.relay_failed', `the relay did not start: ${why}`))
      }
      // One relay lives through many changes: who has been told listens no longer.
      const settled = () => child.off('error', fail).off('exit', ended)
      const fail = (error: Error) => {
        settled()
        reject(error)
      }
      const done = () => {
        settled()
        resolve()
      }
      this.#onWord = (word) => {
        if (words.test(word)) done()
      }
      child.on('error', fail)
      child.on('exit', ended)
    })
  }

  #said: () => string = () => ''

  async start(
    holderPid: number,
    agentPid: number,
    broker: string,
    aliases: readonly HostAlias[],
    onStarted?: (relay: ChildProcess) => void,
    isLazy = false,
  ): Promise<void> {
    await this.setNames(aliases)
    if (this.#child !== null && this.#isAlive) {
      const updated = this.#nextWord(this.#child, this.#said, /^updated/)
      this.#child.stdin.write(`${JSON.stringify(aliases)}\n`)
      return updated
    }
    const { tools, shell } = this.#plan
    const command = [...entryCommand('relay'), JSON.stringify({ broker, proxyPort, aliases })]
    const child = spawn(
      tools.nsenter ?? 'nsenter',
      [
        // The agent's network and nothing else of it: in its mount namespace a program would load what the
        // agent put into /etc/ld.so.preload, with the holder's capabilities. (escape: relay-preload)
        `--user=/proc/${holderPid}/ns/user`,
        `--pid=/proc/${holderPid}/ns/pid`,
        `--net=/proc/${agentPid}/ns/net`,
        '--preserve-credentials',
        // It would wait for its child and stop with it, whenever all that is inside is stopped, and nobody would let it go
        // on. A shell does not.
        '--no-fork',
        '--',
        shell.sh,
        '-c',
        '"$@"; exit $?',
        'orangery-relay',
        shell.setpriv,
        '--pdeathsig',
        'KILL',
        '--',
        ...(isLazy ? sleeping(command) : command),
      ],
      { env: { ...minimalEnv, ...entryEnv }, stdio: onStarted === undefined ? pipes : [...pipes, 'ipc'] },
    ) as RelayProcess
    onStarted?.(child)
    this.#child = child
    this.#said = keepTail(child.stderr)
    // Also after it has said its word: an error that nobody hears ends whoever supervises it.
    child.on('error', () => {})
    child.stdin.on('error', () => {})
    onLines(child.stdout, (line) => this.#onWord?.(line))
    await this.#nextWord(child, this.#said, /^(ready|waiting)$/)
  }

  /** From now on these names resolve inside, and no others. */
  setNames(aliases: readonly HostAlias[]): Promise<void> {
    return writeInPlace(hostsPath(this.#plan.request), hostsFile(aliases))
  }

  async stop(): Promise<void> {
    const child = this.#child
    this.#child = null
    if (child === null || child.exitCode !== null || child.signalCode !== null) return
    await new Promise<void>((resolve) => {
      child.once('close', () => resolve())
      child.kill('SIGKILL')
    })
  }
}

// A new file would not show inside, where this one is bound.
async function writeInPlace(path: string, text: string): Promise<void> {
  await using handle = await open(path, 'r+')
  const { bytesWritten } = await handle.write(text, 0)
  await handle.truncate(bytesWritten)
}
