import { spawn } from 'node:child_process'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

export type RunOptions = {
  readonly cwd?: string
  /** The whole environment of the child; nothing is inherited unless it is in here. */
  readonly env?: Readonly<Record<string, string>>
  /** Whole, or as it comes: where that fails the child finds it cut off. */
  readonly input?: string | Uint8Array | AsyncIterable<Uint8Array>
  readonly signal?: AbortSignal
  /** After it the program is killed, and given up where it does not end even so. */
  readonly timeoutMs?: number
  /** Largest output kept, in bytes; the child is stopped beyond it. */
  readonly maxBytes?: number
  /** What the child has as its descriptors from 3 on. */
  readonly descriptors?: readonly number[]
}
export type RunResult = {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: Buffer
  readonly stderr: Buffer
}

const unlike = (text: string, at: number, all: readonly string[]): boolean => all.indexOf(text) === at

/** Where systems keep their programs: looked through after the user's own PATH, which may lack them. */
export const systemFolders = [
  '/usr/local/sbin',
  '/usr/local/bin',
  '/usr/sbin',
  '/usr/bin',
  '/sbin',
  '/bin',
] as const

export const minimalEnv: Readonly<Record<string, string>> = {
  PATH: [...(process.env['PATH']?.split(':') ?? []), ...systemFolders].filter(unlike).join(':'),
  LANG: 'C.UTF-8',
}

// One that hangs in the kernel is not ended by SIGKILL (seen of a file system that broke), nor are those who hold its pipes.
const killedPatienceMs = 1000

/** Runs a program to its end without a shell and without blocking. Rejects only if it cannot be started. */
export function run(file: string, args: readonly string[], options: RunOptions = {}): Promise<RunResult> {
  const limit = options.maxBytes ?? 256 * 1024 * 1024
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, {
      cwd: options.cwd,
      env: options.env ?? minimalEnv,
      stdio: [
        options.input === undefined ? 'ignore' : 'pipe',
        'pipe',
        'pipe',
        ...(options.descriptors ?? []),
      ],
      signal: options.signal,
      killSignal: 'SIGKILL',
    })
    const chunks = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
    let size = 0
    let timer: NodeJS.Timeout | undefined
    const finish = (code: number | null, signal: NodeJS.Signals | null) => {
      clearTimeout(timer)
      resolve({ code, signal, stdout: Buffer.concat(chunks.stdout), stderr: Buffer.concat(chunks.stderr) })
    }
    const giveUp = () => {
      for (const pipe of child.stdio) pipe?.destroy()
      child.unref()
      // It may have ended long ago, and left somebody behind who holds its pipes.
      finish(child.exitCode, child.exitCode === null ? (child.signalCode ?? 'SIGKILL') : null)
    }
    let isStopped = false
    const stop = () => {
      if (isStopped) return
      isStopped = true
      child.kill('SIGKILL')
      clearTimeout(timer)
      timer = setTimeout(giveUp, killedPatienceMs)
    }
    if (options.timeoutMs !== undefined) timer = setTimeout(stop, options.timeoutMs)
    const collect = (into: Buffer[]) => (chunk: Buffer) => {
      size += chunk.length
      if (size > limit) stop()
      else into.push(chunk)
    }
    child.stdout?.on('data', collect(chunks.stdout))
    child.stderr?.on('data', collect(chunks.stderr))
    child.on('error', (error) => {
      reject(error)
      if (child.pid === undefined) clearTimeout(timer)
      else stop()
    })
    child.on('close', finish)
    // A child that exits without reading its input is not our error.
    child.stdin?.on('error', () => {})
    const { input } = options
    if (typeof input === 'object' && Symbol.asyncIterator in input && child.stdin !== null)
      pipeline(Readable.from(input), child.stdin).catch(() => {})
    else child.stdin?.end(input)
  })
}
