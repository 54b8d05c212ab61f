import { closeSync, constants, openSync } from 'node:fs'
import { join } from 'node:path'
import { OrangeryError } from '../../shared/errors.ts'
import { run } from '../base/process.ts'
import { makeScratch } from './scratch.ts'

export type Pipe = { readonly read: number; readonly write: number }

/**
 * Real pipes. Node's own `stdio: 'pipe'` is a socket pair, on which `echo > /dev/stdout` fails; and handing
 * the caller's descriptors in would let the agent open the file behind them anew through /proc/self/fd, for
 * writing. (escape: inherited-descriptors)
 */
export async function makePipes(directory: string, count: number): Promise<Pipe[]> {
  await using scratch = await makeScratch(directory)
  const paths = Array.from({ length: count }, (_, index) => join(scratch.folder, String(index)))
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
}
