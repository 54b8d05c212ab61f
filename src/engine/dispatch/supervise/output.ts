import { watch } from 'node:fs'
import { open, stat, type FileHandle } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** Terminal output beyond this is counted but not kept: an agent that floods must not fill the disk. */
export const outputLimit = 64 * 1024 * 1024

/** What the agent printed, byte for byte, outside its reach. */
export class OutputLog implements AsyncDisposable {
  /** Bytes seen, kept or not. */
  seen = 0
  #kept = 0
  #tail: Promise<unknown> = Promise.resolve()
  readonly #file: FileHandle

  private constructor(file: FileHandle) {
    this.#file = file
  }

  static async create(path: string): Promise<OutputLog> {
    return new OutputLog(await open(path, 'a', 0o600))
  }

  get truncated(): boolean {
    return this.seen > this.#kept
  }

  /** Resolves when the bytes are with the kernel; a reader that waits for it stalls its own agent only. */
  append(chunk: Uint8Array): Promise<void> {
    this.seen += chunk.length
    const room = outputLimit - this.#kept
    const kept = chunk.length <= room ? chunk : chunk.subarray(0, Math.max(0, room))
    this.#kept += kept.length
    const written = this.#tail.then(async () => {
      if (kept.length > 0) await this.#file.write(kept)
    })
    this.#tail = written.catch(() => {})
    return written
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tail
    await this.#file.close()
  }
}

type ReadOptions = {
  readonly from: number
  readonly follow: boolean
  readonly signal: AbortSignal
  /** True once nothing will be added any more. */
  readonly ended: () => boolean
}

const chunkBytes = 64 * 1024
/** The watch is only a hint; this is how long a missed one can delay us. */
const patienceMs = 500

/** Reads output from an offset on, a negative one counted from the end, and goes on as it grows. */
export async function* readOutput(
  path: string,
  options: ReadOptions,
): AsyncGenerator<{ offset: number; data: string }> {
  let offset = options.from < 0 ? Math.max(0, (await sizeOf(path)) + options.from) : options.from
  const hint = new Hint(path)
  try {
    while (!options.signal.aborted) {
      const ended = options.ended()
      const file = await open(path, 'r').catch(() => null)
      if (file) {
        try {
          const buffer = Buffer.allocUnsafe(chunkBytes)
          while (!options.signal.aborted) {
            const { bytesRead } = await file.read(buffer, 0, chunkBytes, offset)
            if (bytesRead === 0) break
            yield { offset, data: buffer.toString('base64', 0, bytesRead) }
            offset += bytesRead
          }
        } finally {
          await file.close()
        }
      }
      if (!options.follow || ended) return
      await hint.wait(patienceMs, options.signal)
    }
  } finally {
    hint.close()
  }
}

const sizeOf = (path: string) =>
  stat(path).then(
    ({ size }) => size,
    () => 0,
  )

/** Wakes early when a file may have grown. */
class Hint {
  #wake: () => void = () => {}
  readonly #watcher

  constructor(path: string) {
    const name = basename(path)
    try {
      this.#watcher = watch(dirname(path), (_event, changed) => {
        if (changed === null || changed === name) this.#wake()
      })
      this.#watcher.on('error', () => {})
    } catch {
      this.#watcher = null
    }
  }

  async wait(ms: number, signal: AbortSignal): Promise<void> {
    const woken = new Promise<void>((resolve) => {
      this.#wake = resolve
    })
    await Promise.race([woken, sleep(ms, undefined, { signal }).catch(() => {})])
  }

  close(): void {
    this.#watcher?.close()
  }
}
