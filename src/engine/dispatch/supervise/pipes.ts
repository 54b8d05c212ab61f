import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, openSync } from 'node:fs'
import { join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import { minimalEnv, run } from '../../base/process.ts'
import { makeScratch } from '../../base/ownedScratch.ts'

export type Pipe = { readonly read: number; readonly write: number }

/**
 * Real pipes. Node's own `stdio: 'pipe'` is a socket pair, on which `echo > /dev/stdout` fails; and handing
 * the caller's descriptors in would let the agent open the file behind them anew through /proc/self/fd, for
 * writing. (escape: reopened-descriptor)
 */
export async function makePipes(directory: string, count: number): Promise<Pipe[]> {
  return process.platform === 'linux' ? makeNameless(count) : makeNamed(directory, count)
}

/**
 * Pipes without a name, borrowed from a shell. Whoever opens one with a name anew, as `bash /dev/stdin` does, waits
 * for a writer, and for ever where all that is to be read was written before.
 */
async function makeNameless(count: number): Promise<Pipe[]> {
  const shell = spawn('/bin/sh', ['-c', shellWithPipes(count)], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: minimalEnv,
  })
  try {
    const ended = once(shell, 'close').then(() => [''])
    const [said] = (await Promise.race([once(shell.stdout, 'data'), ended])) as [Buffer | string]
    const folder = `/proc/${Number(said.toString()) || 'none'}/fd`
    const numbers = Array.from({ length: count }, (_, index) => String(firstPipe + index))
    return numbers.map((name) => ({
      write: openSync(join(folder, name), constants.O_WRONLY),
      read: openSync(join(folder, name), constants.O_RDONLY),
    }))
  } catch (error) {
    throw noPipe(error instanceof Error ? error.message : String(error))
  } finally {
    shell.stdin.destroy()
  }
}
const firstPipe = 3

/** The innermost shell holds an end of each pipe, says who it is, and stays until it is let go. */
function shellWithPipes(count: number): string {
  let inner = 'read -r own rest < /proc/self/stat; echo "$own" >&9; read -r wait <&8'
  for (let pipe = firstPipe + count - 1; pipe >= firstPipe; pipe--)
    inner = `: | { exec ${pipe}<&0; ${inner}; }`
  return `exec 8<&0 9>&1; ${inner}`
}

const noPipe = (why: string) =>
  new OrangeryError('dispatch.no_pipe', `pipes for the command: ${why}`, { kind: 'cannot_create' })

async function makeNamed(directory: string, count: number): Promise<Pipe[]> {
  await using scratch = await makeScratch(directory)
  const paths = Array.from({ length: count }, (_, index) => join(scratch.folder, String(index)))
  const made = await run('mkfifo', ['-m', '600', ...paths])
  if (made.code !== 0) throw noPipe(`mkfifo: ${made.stderr.toString().trim()}`)
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
