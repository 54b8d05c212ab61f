import { spawn, type ChildProcess } from 'node:child_process'
import { errorFromReport, OrangeryError } from '../../../shared/errors.ts'
import { entryCommand, entryEnv } from '../../base/entry.ts'
import type { Job } from '../prepare/job.ts'
import type { Places } from '../parts.ts'
import { supervisorThreads, type Answer, type Order } from './supervisor.ts'

const spareDelayMs = 500
const spareEndMs = 3_500

/**
 * Starts supervisors, each a process of its own that outlives us. A host that stays keeps one waiting, so that
 * starting a process is no part of the wait.
 */
export class Supervisors implements AsyncDisposable {
  readonly #places: Places
  readonly #keepSpare: boolean
  #spare: ChildProcess | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(places: Places, keepSpare: boolean) {
    this.#places = places
    this.#keepSpare = keepSpare
    if (keepSpare) this.#spare = startSupervisor(places)
  }

  /** Resolves when a supervisor has taken the job over. */
  async start(job: Job): Promise<void> {
    const waiting = this.#spare
    const child =
      waiting !== undefined && waiting.exitCode === null && waiting.signalCode === null
        ? waiting
        : startSupervisor(this.#places)
    this.#spare = undefined
    this.#replaceSpareSoon()
    const order: Order = { job }
    const answer = readAnswer(child)
    child.stdin?.on('error', () => {})
    child.stdin?.end(`${JSON.stringify(order)}\n`)
    const message = await answer
    child.stdout?.destroy()
    child.unref()
    if ('error' in message) throw errorFromReport(message.error)
  }

  /** Not at once: its start would compete with the agent's. */
  #replaceSpareSoon(): void {
    if (!this.#keepSpare) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#spare ??= startSupervisor(this.#places)
    }, spareDelayMs)
    this.#timer.unref()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#timer)
    const spare = this.#spare
    this.#spare = undefined
    if (spare === undefined || spare.exitCode !== null || spare.signalCode !== null) return
    const { promise: gone, resolve } = Promise.withResolvers<void>()
    spare.once('exit', () => resolve()).once('error', () => resolve())
    // A spare ends by itself when its stdin does. The database is closed once all have closed it: wait for it.
    spare.stdin?.on('error', () => {}).end()
    spare.stdout?.destroy()
    const patience = setTimeout(resolve, spareEndMs)
    await gone
    clearTimeout(patience)
  }
}

function startSupervisor({ dataDir, configDir }: Places): ChildProcess {
  const [program, ...args] = entryCommand('supervisor')
  const child = spawn(program, [...args, dataDir, configDir], {
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { UV_THREADPOOL_SIZE: supervisorThreads, ...process.env, ...entryEnv },
    cwd: '/',
  })
  // A supervisor must not keep its host alive.
  child.unref()
  for (const stream of [child.stdin, child.stdout])
    (stream as unknown as { unref?(): void } | null)?.unref?.()
  return child
}

function readAnswer(child: ChildProcess): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let text = ''
    const gone = (why: string) =>
      reject(new OrangeryError('dispatch.no_supervisor', `dispatch: its supervisor did not start (${why})`))
    ;(child.stdout as unknown as { ref?(): void } | null)?.ref?.()
    child.stdout?.on('data', (chunk: Buffer) => {
      text += chunk.toString()
      const end = text.indexOf('\n')
      if (end !== -1) resolve(JSON.parse(text.slice(0, end)) as Answer)
    })
    child.once('error', (error) => gone(error.message))
    child.once('close', (code, signal) => gone(String(code ?? signal)))
  })
}
