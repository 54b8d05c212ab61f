import { watch, type FSWatcher } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import type { LoggedEvent } from '../../../shared/events.ts'
import { LineReader } from './lines.ts'

export type ReadOptions = {
  /** Events with a greater `seq` than this. */
  readonly after: number
  /** Wait for more, up to the dispatch's end. */
  readonly follow: boolean
  readonly signal?: AbortSignal | undefined
  /** Whether the dispatch has ended by other accounts: nothing more will come, with or without a last event. */
  readonly ended?: () => boolean
}

const pollMs = 1_000
/** Until the log's folder is there to be watched. */
const unwatchedPollMs = 100

/**
 * The events of a log, in order. Following ends with `DispatchEnded`, with `ended` or with the
 * signal. A line that cannot be
 * read is shown as such in its place, never skipped over in silence; proof is `verifyEvents`.
 */
export async function* readEvents(path: string, options: ReadOptions): AsyncGenerator<LoggedEvent> {
  const { after, follow, signal, ended = () => false } = options
  const stopped = () => signal?.aborted === true
  using growth = follow ? watchGrowth(path) : undefined
  let file: FileHandle | undefined
  try {
    file = await openWhenThere(path, growth, options)
    if (file === undefined) return
    const reader = new LineReader(file)
    let seq = 0
    while (!stopped()) {
      // Asked before reading: what was written until then is read yet.
      const isLast = growth === undefined || ended()
      for await (const line of reader.lines()) {
        const event = parseLine(line, seq + 1)
        seq = event.seq
        if (event.seq > after) yield event
        if (stopped() || (follow && event.event.type === 'DispatchEnded')) return
      }
      if (isLast) return
      await growth?.next(signal)
    }
  } finally {
    await file?.close()
  }
}

function parseLine(line: Buffer, expectedSeq: number): LoggedEvent {
  try {
    const parsed = JSON.parse(line.toString('utf8')) as LoggedEvent
    if (Number.isInteger(parsed.seq) && typeof parsed.event?.type === 'string') return parsed
  } catch {
    // Told below.
  }
  return {
    seq: expectedSeq,
    at: '',
    prev: '',
    hash: '',
    event: { type: 'Note', text: `line ${expectedSeq} of the event log is damaged and cannot be shown` },
  }
}

type Growth = Disposable & { next(signal: AbortSignal | undefined): Promise<void> }

async function openWhenThere(
  path: string,
  growth: Growth | undefined,
  { signal, ended = () => false }: ReadOptions,
): Promise<FileHandle | undefined> {
  for (;;) {
    const isLast = growth === undefined || signal?.aborted === true || ended()
    try {
      return await open(path, 'r')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      if (isLast) return undefined
      await growth?.next(signal)
    }
  }
}

/** Wakes when the folder's watcher says the file may have grown, and once a second in any case. */
function watchGrowth(path: string): Growth {
  let grown = false
  let wake = () => {}
  let watcher: FSWatcher | undefined
  const startWatching = () => {
    try {
      watcher ??= watch(dirname(path), { persistent: false }, (_, file) => {
        if (file !== null && file !== basename(path)) return
        grown = true
        wake()
      })
      watcher.on('error', () => watcher?.close())
    } catch {
      // No folder yet, or out of watches: the poll carries on alone.
    }
  }
  startWatching()
  return {
    next: async (signal) => {
      if (watcher === undefined) startWatching()
      if (!grown && signal?.aborted !== true) {
        const { promise, resolve } = Promise.withResolvers<void>()
        wake = resolve
        const timer = setTimeout(resolve, watcher === undefined ? unwatchedPollMs : pollMs)
        signal?.addEventListener('abort', wake)
        await promise
        clearTimeout(timer)
        signal?.removeEventListener('abort', wake)
      }
      grown = false
    },
    [Symbol.dispose]: () => watcher?.close(),
  }
}
