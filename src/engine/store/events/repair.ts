import { open, type FileHandle } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
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

type Repaired = {
  /** Null for an empty log. */
  readonly last: LoggedEvent | null
  readonly torn: { readonly bytes: number; readonly moved_to: string } | null
}

/**
 * Makes the end of the file a whole line again. Costs what the last line is long, whatever the file's size. Only
 * what comes after the last newline can be torn, zeros of a power cut included: a writer puts the newline last. A
 * complete line that is not what was written was changed by somebody, and is not ours to move out of sight.
 */
export async function repairTail(path: string, file: FileHandle): Promise<Repaired> {
  const size = (await file.stat()).size
  const whole = await lineStart(file, size)
  const last =
    whole === 0 ? null : openSealed(await readRange(file, await lineStart(file, whole - 1), whole - 1))
  if (whole > 0 && last === null) {
    throw new OrangeryError('events.damaged', `${path}: the last line is not what was written`, {
      kind: 'input',
      hint: 'Nothing was changed. `orangery dispatch events --verify` says how much of it is proven.',
    })
  }
  if (whole === size) return { last, torn: null }
  const event = openSealed(await readRange(file, whole, size))
  // Only the newline was lost: the event itself is whole.
  if (event !== null) await file.appendFile('\n')
  const torn = event === null ? await moveTorn(path, file, whole, size) : null
  await file.datasync()
  return { last: event ?? last, torn }
}

/** The torn bytes are safe beside the log before they leave it. */
async function moveTorn(path: string, file: FileHandle, from: number, to: number): Promise<Repaired['torn']> {
  const target = `${path}.torn-${Date.now()}`
  const torn = await open(target, 'a', 0o600)
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
  return { bytes: to - from, moved_to: basename(target) }
}
