import { constants as osConstants } from 'node:os'
import type { ReadStream, WriteStream } from 'node:tty'
import type { SpawnRequest } from '../../../shared/api.ts'
import type { EventBody } from '../../../shared/events.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import { findCard } from '../../agents/index.ts'
import { pipeIo, terminalIo, type AgentIo } from './agentIo.ts'
import { leaveCaretaker } from '../recover/caretaker.ts'
import type { Contract } from '../../base/contract.ts'
import { enterRawMode } from '../../base/rawTerminal.ts'
import type { RunningSandbox } from '../../base/sandbox.ts'
import { lowerRung } from '../../workspace/index.ts'
import type { Parts } from '../parts.ts'
import { prepare } from '../prepare/prepare.ts'
import type { Outcome } from './outcome.ts'
import { isSpokenTo } from './speech.ts'
import { supervise } from './supervise.ts'

export type ForegroundOptions = {
  readonly terminal: boolean
  /** Called with what was agreed on, before anything starts. */
  readonly onPrepared?: (contract: Pick<Contract, 'level' | 'strategy' | 'boundary' | 'roots'>) => void
  /** `lesserWorkspace`: those among them on a workspace that is the next step down. */
  readonly onNotes?: (notes: readonly string[], lesserWorkspace: readonly string[]) => void
  /** Called at once with each host that was refused. */
  readonly onRefused?: (id: DispatchId, refused: Refused) => void
  /** Called with each request that is left for a person. */
  readonly onAsked?: (id: DispatchId, asked: Extract<EventBody, { type: 'BoundaryRequested' }>) => void
}

export type Refused = { readonly host: string; readonly why: string }

export type Foreground = {
  readonly id: DispatchId
  readonly exitCode: number
  /** Null also where the person ended it: nobody has to be told what he did. */
  readonly error: string | null
}

/** The code a shell expects: the command's own, 128+n for signal n, 124 for our time limit. */
function exitCodeOf(outcome: Outcome, stoppedBy: NodeJS.Signals | null): number {
  if (outcome.status === 'timeout') return 124
  // A command that ended by itself, however it was asked to, has a code of its own.
  if (stoppedBy !== null && outcome.signal === 'SIGKILL') return 128 + osConstants.signals[stoppedBy]
  if (outcome.exitCode !== null) return outcome.exitCode
  if (outcome.signal !== null) return 128 + osConstants.signals[outcome.signal]
  return outcome.error === null ? 1 : 70
}

const passedSignals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const
/** How long a command may take to end in good order after it was asked to for good. */
const graceMs = 2000
const echoMs = 200

/** Runs a dispatch as its own supervisor, on the terminal or the pipes this process has. */
export async function runForeground(
  parts: Parts,
  request: SpawnRequest,
  { terminal, onPrepared, onNotes, onRefused, onAsked }: ForegroundOptions,
): Promise<Foreground> {
  const card = await findCard(parts.configDir, request.agent)
  // Messages go both ways over pipes; what is typed here would only come between them.
  const isSpoken = isSpokenTo({ card })
  const hasTerminal = terminal && !isSpoken
  const size = hasTerminal ? terminalSize(process.stdout) : undefined
  const stop = new AbortController()
  const passedOn = new Set<NodeJS.Signals>()
  let stoppedBy: NodeJS.Signals | null = null
  let isRecorded = false
  let sandbox: RunningSandbox | undefined
  let asked = 0
  let lastAsked = 0
  let asking: NodeJS.Signals | null = null
  let grace: NodeJS.Timeout | undefined
  const end = (name: NodeJS.Signals) => {
    stoppedBy ??= name
    stop.abort(name)
  }
  const deafen = () => passedSignals.forEach((each) => process.off(each, onSignal))
  const onSignal = (name: NodeJS.Signals) => {
    // There is nothing yet to bring to its end, and what is being looked at may never answer: we end as whoever never asked
    // to hear of signals.
    if (!isRecorded) {
      deafen()
      return void process.kill(process.pid, name)
    }
    // The first one is the command's own business; whoever repeats it means it.
    // A terminal and a wrapper that passes signals on both tell of one Ctrl-C.
    const isEcho = asked > 0 && performance.now() - lastAsked < echoMs
    lastAsked = performance.now()
    if (isEcho) return
    asked++
    if (asked > 1 || sandbox === undefined) return end(name)
    passedOn.add(name)
    sandbox.signal(name)
    // Ctrl-C may mean something to the command; the others mean the end.
    if (name === 'SIGINT') return
    asking = name
    grace = setTimeout(() => end(name), graceMs)
  }
  for (const name of passedSignals) process.on(name, onSignal)
  try {
    // Before the row: what fails here leaves none.
    using _caretaker = leaveCaretaker({ dataDir: parts.layout.dataDir, configDir: parts.configDir })
    using io = size === undefined ? await pipeIo(parts.runtime, onRefused !== undefined) : terminalIo(size)
    const job = await prepare(parts, size === undefined ? request : { ...request, size })
    isRecorded = true
    onPrepared?.(job.contract)
    onNotes?.(job.notes, lowerRung(job.driver, job.contract.strategy))
    using _raw = hasTerminal ? await enterRawMode(process.stdin as ReadStream) : null
    using _connected = hasTerminal ? connectTerminal(io, passedOn) : isSpoken ? null : connectPipes(io)
    const outcome = await supervise(parts, job, {
      io,
      signal: stop.signal,
      // Asked to end, it has; of Ctrl-C only whoever ends by it means that.
      wishedBy: (signal) => asking ?? (signal !== null && passedOn.has(signal) ? signal : null),
      sink: async (chunk, name) => {
        const stream = name === 'stdout' ? process.stdout : process.stderr
        if (await reaches(stream, chunk)) return true
        // Nobody reads any more: what the command would get without us in between.
        passedOn.add('SIGPIPE')
        return false
      },
      onRunning: (running) => {
        sandbox = running
      },
      // On a terminal the command's own picture is there by now; the record has it.
      ...(hasTerminal ? {} : { onNote: (text: string) => onNotes?.([text], []) }),
      onEvent: (event) => {
        if (event.type === 'EgressDecided' && !event.allowed) onRefused?.(job.id, event)
        if (event.type === 'BoundaryRequested') onAsked?.(job.id, event)
      },
    })
    const error = outcome.status === 'cancelled' ? null : outcome.error
    return { id: job.id, exitCode: exitCodeOf(outcome, stoppedBy), error }
  } finally {
    clearTimeout(grace)
    deafen()
  }
}

/** Resolves when the piece is taken; false where whoever read has left. */
function reaches(stream: WriteStream, chunk: Buffer): Promise<boolean> {
  if (stream.destroyed) return Promise.resolve(false)
  return new Promise((resolve) => {
    const onError = () => resolve(false)
    stream.once('error', onError)
    stream.write(chunk, (error) => {
      stream.off('error', onError)
      resolve(error == null)
    })
  })
}

/** What a terminal makes of Ctrl-C and Ctrl-\\. */
const signalKeys = [
  [0x03, 'SIGINT'],
  [0x1c, 'SIGQUIT'],
] as const

function terminalSize(stream: WriteStream) {
  return { columns: stream.columns || 80, rows: stream.rows || 24 }
}

/** Keys go in raw, so that Ctrl-C reaches the agent's foreground job and not us. */
function connectTerminal(io: AgentIo, passedOn: Set<NodeJS.Signals>): Disposable {
  const stdin = process.stdin as ReadStream
  const onData = (chunk: Buffer) => {
    for (const [key, name] of signalKeys) if (chunk.includes(key)) passedOn.add(name)
    io.write(chunk)
  }
  const onResize = () => io.resize(terminalSize(process.stdout))
  stdin.on('data', onData)
  process.stdout.on('resize', onResize)
  return {
    [Symbol.dispose]() {
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
