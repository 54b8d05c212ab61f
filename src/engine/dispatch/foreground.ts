import { constants as osConstants } from 'node:os'
import type { ReadStream, WriteStream } from 'node:tty'
import type { SpawnRequest } from '../../shared/api.ts'
import type { DispatchId } from '../../shared/ids.ts'
import { pipeIo, terminalIo, type AgentIo } from './agentIo.ts'
import type { RunningSandbox } from '../base/sandbox.ts'
import type { Parts } from './parts.ts'
import { prepare } from './prepare.ts'
import { supervise, type Outcome } from './supervise.ts'

export type Foreground = { readonly id: DispatchId; readonly exitCode: number; readonly error: string | null }

/** The code a shell expects: the command's own, 128+n for signal n, 124 for our time limit. */
function exitCodeOf(outcome: Outcome, stoppedBy: NodeJS.Signals | null): number {
  if (outcome.status === 'timeout') return 124
  if (stoppedBy !== null) return 128 + osConstants.signals[stoppedBy]
  if (outcome.exitCode !== null) return outcome.exitCode
  if (outcome.signal !== null) return 128 + osConstants.signals[outcome.signal]
  return outcome.error === null ? 1 : 70
}

const lastSignals = ['SIGTERM', 'SIGHUP', 'SIGQUIT'] as const

/** Runs a dispatch as its own supervisor, on the terminal or the pipes this process has. */
export async function runForeground(
  parts: Parts,
  request: SpawnRequest,
  terminal: boolean,
): Promise<Foreground> {
  const size = terminal ? terminalSize(process.stdout) : undefined
  const stop = new AbortController()
  let stoppedBy: NodeJS.Signals | null = null
  let sandbox: RunningSandbox | undefined
  let interrupts = 0
  const onInterrupt = () => {
    // The first Ctrl-C is the command's own business; whoever repeats it means it.
    interrupts++
    if (interrupts === 1 && sandbox !== undefined) return sandbox.signal('SIGINT')
    stoppedBy = 'SIGINT'
    stop.abort()
  }
  const onLast = (name: NodeJS.Signals) => {
    stoppedBy = name
    stop.abort()
  }
  process.on('SIGINT', onInterrupt)
  for (const name of lastSignals) process.on(name, onLast)
  try {
    // Before the row: what fails here leaves none.
    using io = size === undefined ? await pipeIo(parts.runtime) : terminalIo(size)
    const job = await prepare(parts, size === undefined ? request : { ...request, size })
    using _connected = terminal ? connectTerminal(io) : connectPipes(io)
    const outcome = await supervise(parts, job, {
      io,
      signal: stop.signal,
      sink: async (chunk, name) => {
        const stream = name === 'stdout' ? process.stdout : process.stderr
        if (stream.destroyed) return
        if (!stream.write(chunk))
          await new Promise<void>((resolve) => stream.once('drain', resolve).once('close', resolve))
      },
      onRunning: (running) => {
        sandbox = running
      },
    })
    return { id: job.id, exitCode: exitCodeOf(outcome, stoppedBy), error: outcome.error }
  } finally {
    process.off('SIGINT', onInterrupt)
    for (const name of lastSignals) process.off(name, onLast)
  }
}

function terminalSize(stream: WriteStream) {
  return { columns: stream.columns || 80, rows: stream.rows || 24 }
}

/** Keys go in raw, so that Ctrl-C reaches the agent's foreground job and not us; the terminal is put back after. */
function connectTerminal(io: AgentIo): Disposable {
  const stdin = process.stdin as ReadStream
  const onData = (chunk: Buffer) => io.write(chunk)
  const onResize = () => io.resize(terminalSize(process.stdout))
  const restore = () => {
    if (stdin.isTTY) stdin.setRawMode(false)
  }
  if (stdin.isTTY) stdin.setRawMode(true)
  process.on('exit', restore)
  stdin.on('data', onData)
  process.stdout.on('resize', onResize)
  return {
    [Symbol.dispose]() {
      restore()
      process.off('exit', restore)
      stdin.off('data', onData)
      stdin.pause()
      process.stdout.off('resize', onResize)
    },
  }
}

function connectPipes(io: AgentIo): Disposable {
  const { stdin } = process
  const onData = (chunk: Buffer) => io.write(chunk)
  const onEnd = () => io.endInput()
  stdin.on('data', onData)
  stdin.on('end', onEnd)
  stdin.on('error', onEnd)
  return {
    [Symbol.dispose]() {
      stdin.off('data', onData)
      stdin.off('end', onEnd)
      stdin.off('error', onEnd)
      stdin.pause()
    },
  }
}
