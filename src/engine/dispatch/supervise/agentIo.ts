import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { SandboxIo } from '../../base/sandbox.ts'
import { makePipes, type Pipe } from './pipes.ts'
import { Terminal, type Size } from './terminal.ts'

export type OutputName = 'stdout' | 'stderr'
/** Takes a piece of output; the next one waits until it has been taken. False: nobody wants any more of it. */
export type Sink = (chunk: Buffer, name: OutputName) => Promise<boolean | void> | boolean | void

/** How an agent is spoken to: a terminal of its own or three pipes. Never the caller's own descriptors. */
export interface AgentIo extends Disposable {
  readonly terminal: boolean
  readonly sandbox: SandboxIo
  /** The sandbox holds its own copies now: let go of ours and carry output to the sink. */
  start(sink: Sink): void
  /** Resolves when everything printed has reached the sink. */
  drained(): Promise<void>
  write(data: string | Uint8Array): void
  endInput(): void
  resize(size: Size): void
}

/** Who waits until it has drained hears why it broke off; who disposes of it before that wants nothing more of it. */
const leaveToDrained = (pumping: Promise<unknown>) => void pumping.catch(() => {})

/** Output may be late, never lost; but a process that will not die must not keep us for ever. */
const drainPatienceMs = 5_000

export function terminalIo(size: Size): AgentIo {
  const terminal = new Terminal(size)
  const { slave } = terminal
  let pumping: Promise<void> = Promise.resolve()
  return {
    terminal: true,
    sandbox: { stdin: slave, stdout: slave, stderr: slave },
    start(sink) {
      terminal.handOver()
      pumping = (async () => {
        for await (const chunk of terminal.output()) await sink(chunk, 'stdout')
      })()
      leaveToDrained(pumping)
    },
    drained: () => Promise.race([pumping, sleep(drainPatienceMs, undefined, { ref: false })]),
    write: (data) => terminal.write(data),
    endInput: () => terminal.write('\x04'),
    resize: (size) => terminal.resize(size),
    [Symbol.dispose]: () => terminal[Symbol.dispose](),
  }
}

/** `isAnnotated`: who reads them is told by us what was refused; the agent's programs need not be. */
export async function pipeIo(directory: string, isAnnotated = false): Promise<AgentIo> {
  const [input, output, errors] = (await makePipes(directory, 3)) as [Pipe, Pipe, Pipe]
  const theirs = [input.read, output.write, errors.write]
  const stdin = new Socket({ fd: input.write, readable: false, writable: true })
  const sources = {
    stdout: new Socket({ fd: output.read, readable: true, writable: false }),
    stderr: new Socket({ fd: errors.read, readable: true, writable: false }),
  }
  // A program that ends without reading all its input is not an error of ours.
  stdin.on('error', () => {})
  let handedOver = false
  const handOver = () => {
    if (handedOver) return
    handedOver = true
    for (const descriptor of theirs) closeSync(descriptor)
  }
  let pumping: Promise<unknown> = Promise.resolve()
  return {
    terminal: false,
    sandbox: { stdin: input.read, stdout: output.write, stderr: errors.write, isAnnotated },
    start(sink) {
      handOver()
      const pump = async (name: OutputName) => {
        // Leaving the loop closes our end, so that the agent hears of it where it writes next.
        for await (const chunk of sources[name]) if ((await sink(chunk as Buffer, name)) === false) break
      }
      pumping = Promise.all([pump('stdout'), pump('stderr')])
      leaveToDrained(pumping)
    },
    async drained() {
      await Promise.race([pumping, sleep(drainPatienceMs, undefined, { ref: false })])
    },
    write: (data) => {
      if (!stdin.destroyed) stdin.write(data)
    },
    endInput: () => stdin.end(),
    resize: () => {},
    [Symbol.dispose]() {
      handOver()
      for (const stream of [stdin, sources.stdout, sources.stderr]) stream.destroy()
    },
  }
}
