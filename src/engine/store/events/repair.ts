import { open, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { LoggedEvent } from '../../../shared/events.ts'
import { syncDir } from '../../base/files.ts'
import { openSealed } from './chain.ts'

const newline = 0x0a
const step = 64 * 1024

async function readRange(file: FileHandle, from: number, to: number): Promise<Buffer> {
  const bytes = Buffer.alloc(to - from)
  let read = 0
  while (read < bytes.length) {
    const { bytesRead } = await file.read(bytes, read, bytes.length - read, from + read)
    if (bytesRead === 0) break
    read += bytesRead
  }
  return bytes.subarray(0, read)
}

/** Where the line that ends at `end` begins: just after the newline before it. */
async function lineStart(file: FileHandle, end: number): Promise<number> {
  let to = end
  while (to > 0) {
    const from = Math.max(0, to - step)
    const found = (await readRange(file, from, to)).lastIndexOf(newline)
    if (found !== -1) return from + found + 1
    to = from
  }
  return 0
}

/**
 * Makes the end of the file a whole line again and returns the last event, or null for an empty log. Costs
 * what the last line is long, whatever the file's size. Only what is broken at the very end is moved; a
 * broken line further up is not ours to hide, `verifyEvents` tells of it.
 */
export async function repairTail(path: string, file: FileHandle): Promise<LoggedEvent | null> {
  const size = (await file.stat()).size
  let end = size
  while (end > 0) {
    const terminated = (await readRange(file, end - 1, end))[0] === newline
    const textEnd = terminated ? end - 1 : end
    const start = await lineStart(file, textEnd)
    const event = openSealed(await readRange(file, start, textEnd))
    if (event !== null) {
      if (end < size) await moveTorn(path, file, end, size)
      // Only the newline was lost: the event itself is whole.
      if (!terminated) await file.appendFile('\n')
      if (end < size || !terminated) await file.datasync()
      return event
    }
    end = start
  }
  if (size > 0) {
    await moveTorn(path, file, 0, size)
    await file.datasync()
  }
  return null
}

/** The torn bytes are safe beside the log before they leave it. */
async function moveTorn(path: string, file: FileHandle, from: number, to: number): Promise<void> {
  const torn = await open(`${path}.torn-${Date.now()}`, 'a', 0o600)
  try {
    for (let at = from; at < to; at += step) {
      await torn.appendFile(await readRange(file, at, Math.min(to, at + step)))
    }
    await torn.sync()
  } finally {
    await torn.close()
  }
  await syncDir(dirname(path))
  await file.truncate(from)
}
