import { closeSync, constants, openSync } from 'node:fs'
import { createRequire } from 'node:module'
import { ReadStream } from 'node:tty'

export type Size = { readonly columns: number; readonly rows: number }

type NativePty = {
  open(columns: number, rows: number): { master: number; slave: number; pty: string }
  resize(master: number, columns: number, rows: number): void
}

/**
 * The package's own `open()` starts reading from the slave side, which would steal the agent's input, so we
 * use the binding below it: a pair of descriptors and nothing else.
 */
function loadNative(): NativePty {
  const require = createRequire(import.meta.url)
  const loader = require('@lydell/node-pty/requireBinary.js') as { requireBinary(file: string): NativePty }
  return loader.requireBinary('pty.node')
}
let native: NativePty | undefined

/**
 * A pseudo-terminal that belongs to no session yet. The sandbox makes it the controlling terminal of the
 * agent's own session, so job control works inside and nothing of the user's terminal is handed in: an agent
 * that pushes characters (TIOCSTI) reaches only itself.
 */
export class Terminal implements Disposable {
  /** For the sandbox's stdio. Ours until `handOver`. */
  readonly slave: number
  readonly #native: NativePty
  readonly #master: number
  readonly #stream: ReadStream
  #handedOver = false

  constructor(size: Size) {
    native ??= loadNative()
    this.#native = native
    const pair = native.open(size.columns, size.rows)
    this.#master = pair.master
    // The binding's descriptors survive exec; one opened by Node does not.
    this.slave = openSync(pair.pty, constants.O_RDWR | constants.O_NOCTTY)
    closeSync(pair.slave)
    this.#stream = new ReadStream(pair.master)
    this.#stream.pause()
  }

  /** Closes our copy of the slave side, so that the end of the agent ends the reading. */
  handOver(): void {
    if (this.#handedOver) return
    this.#handedOver = true
    closeSync(this.slave)
  }

  /** Everything the agent prints, until its last process has let go of the terminal. */
  async *output(): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of this.#stream) yield chunk as Buffer
    } catch (error) {
      // Linux reports the last close of the slave side as EIO.
      if ((error as NodeJS.ErrnoException).code !== 'EIO') throw error
    }
  }

  write(data: string | Uint8Array): void {
    if (!this.#stream.destroyed) this.#stream.write(data)
  }

  resize(size: Size): void {
    if (!this.#stream.destroyed) this.#native.resize(this.#master, size.columns, size.rows)
  }

  [Symbol.dispose](): void {
    this.handOver()
    this.#stream.destroy()
  }
}
