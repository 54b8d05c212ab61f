import { spawn, type ChildProcessByStdio } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { OrangeryError } from '../../../shared/errors.ts'
import { entryCommand, entryEnv } from '../../base/entry.ts'
import { minimalEnv } from '../../base/process.ts'
import { proxyPort, type HostAlias } from '../../base/sandbox.ts'
import { keepTail, onLines } from '../lines.ts'
import type { SandboxPlan } from '../plan/plan.ts'
import { sleeping } from './sleeper.ts'

const pipes: ('pipe' | 'ipc')[] = ['pipe', 'pipe', 'pipe']

export type RelayStart = {
  readonly holderPid: number
  readonly agentPid: number
  /** Null: whoever starts it takes its sockets over the channel, and no broker is named. */
  readonly broker: string | null
  readonly aliases: readonly HostAlias[]
  readonly hasChannel: boolean
  readonly isLazy: boolean
}

/** One process that listens in a sandbox's network namespace; it may do so before it is known for whom. */
export class RelayProgram {
  readonly child: ChildProcessByStdio<Writable, Readable, Readable>
  /** Somebody listens, be it one that wakes when there is a connection. */
  readonly ready: Promise<unknown>
  readonly #said: () => string
  #onWord: ((word: string) => void) | null = null
  #isStopped = false

  constructor({ tools, shell }: Pick<SandboxPlan, 'tools' | 'shell'>, start: RelayStart) {
    const { holderPid, agentPid, broker, aliases, hasChannel, isLazy } = start
    const settings = JSON.stringify({ broker: broker ?? '', proxyPort, aliases })
    const command = [...entryCommand('relay'), settings]
    this.child = spawn(
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
      { env: { ...minimalEnv, ...entryEnv }, stdio: hasChannel ? [...pipes, 'ipc'] : pipes },
    ) as RelayProgram['child']
    this.#said = keepTail(this.child.stderr)
    // Also after it has said its word: an error that nobody hears ends whoever supervises it.
    this.child.on('error', () => {})
    this.child.stdin.on('error', () => {})
    onLines(this.child.stdout, (line) => this.#onWord?.(line))
    this.ready = this.#nextWord(/^(ready|waiting)$/)
    this.ready.catch(() => {})
  }

  get isAlive(): boolean {
    const { exitCode, signalCode, pid } = this.child
    return !this.#isStopped && pid !== undefined && exitCode === null && signalCode === null
  }

  /** From now on it listens for these; gives where it cannot. */
  async setAliases(aliases: readonly HostAlias[]): Promise<readonly string[]> {
    const updated = this.#nextWord(/^updated/)
    this.child.stdin.write(`${JSON.stringify(aliases)}\n`)
    const [, without = ''] = (await updated).split(', without ')
    return without.split(' ').filter(Boolean)
  }

  /** Resolves when it says one of these, rejects if it ends instead. */
  #nextWord(words: RegExp): Promise<string> {
    const { child } = this
    return new Promise((resolve, reject) => {
      const ended = (code: number | null) => {
        // With the sandbox: there is nobody left to be told.
        if (this.#isStopped) return done('')
        const why = this.#said().split('\n').at(-1) || `it ended with ${code}`
        fail(new OrangeryError('sandbox.relay_failed', `the relay did not start: ${why}`))
      }
      // One relay lives through many changes: who has been told listens no longer.
      const settled = () => child.off('error', fail).off('exit', ended)
      const fail = (error: Error) => {
        settled()
        reject(error)
      }
      const done = (word: string) => {
        settled()
        resolve(word)
      }
      this.#onWord = (word) => {
        if (words.test(word)) done(word)
      }
      child.on('error', fail)
      child.on('exit', ended)
    })
  }

  async stop(): Promise<void> {
    const { child } = this
    const { isAlive } = this
    this.#isStopped = true
    if (!isAlive) return
    await new Promise<void>((resolve) => {
      child.once('close', () => resolve())
      child.kill('SIGKILL')
    })
  }
}
