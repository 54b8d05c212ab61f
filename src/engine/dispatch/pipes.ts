import { closeSync, constants, openSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { OrangeryError } from '../../shared/errors.ts'
import { ensurePrivateDir } from '../base/files.ts'
import { run } from '../base/process.ts'
import { startTicks } from './processes.ts'

export type Pipe = { readonly read: number; readonly write: number }

/**
 * Real pipes. Node's own `stdio: 'pipe'` is a socket pair, on which `echo > /dev/stdout` fails; and handing
 * the caller's descriptors in would let the agent open the file behind them anew through /proc/self/fd, for
 * writing. (escape: inherited-descriptors)
 */
export async function makePipes(directory: string, count: number): Promise<Pipe[]> {
  await ensurePrivateDir(directory)
  const folder = await mkdtemp(join(directory, `pipe-${process.pid}.${await startTicks(process.pid)}-`))
  try {
    const paths = Array.from({ length: count }, (_, index) => join(folder, String(index)))
    const made = await run('mkfifo', ['-m', '600', ...paths])
    if (made.code !== 0) {
      throw new OrangeryError('dispatch.no_pipe', `mkfifo: ${made.stderr.toString().trim()}`, {
        kind: 'cannot_create',
      })
    }
    return paths.map((path) => {
      // Opening either end would wait for the other, so a non-blocking reader goes first. It is replaced at
      // once: a program whose stdin does not block gets EAGAIN where it expects to wait.
      const opener = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
      const write = openSync(path, constants.O_WRONLY)
      const read = openSync(path, constants.O_RDONLY)
      closeSync(opener)
      return { read, write }
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Who made a folder of pipes, which lives only while they are opened; null where the name is no such folder's. */
export function ownerOfPipes(name: string): { readonly pid: number; readonly ticks: number } | null {
  const [, pid, ticks] = /^pipe-(\d+)\.(\d+)-/.exec(name) ?? []
  return pid === undefined || ticks === undefined ? null : { pid: Number(pid), ticks: Number(ticks) }
}
