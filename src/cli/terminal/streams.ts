import { setImmediate as turn } from 'node:timers/promises'
import { OrangeryError } from '../../shared/errors.ts'

let failure: NodeJS.ErrnoException | undefined
let isSupervising = false
const leavingMs = 200

/** From here on a reader that has seen enough ends nothing: what runs has to be brought to its end first. */
export function stayWithoutReaders(): void {
  isSupervising = true
}

/** Watches what we print on. A reader that has seen enough (`| head`) is no error, a full disk is one. */
export function watchStreams(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      // A moment for a command that is at its end to say its own code; one that goes on for ever ends here.
      if (error.code === 'EPIPE' && stream === process.stdout && !isSupervising)
        setTimeout(() => process.exit(process.exitCode ?? 0), leavingMs).unref()
      // EIO: the terminal is gone, and with it whoever could be told.
      if (error.code !== 'EPIPE' && error.code !== 'EIO') failure ??= error
    })
  }
}

/** Resolves when all that was printed is out; rejects where it could not be. */
export async function flushStreams(): Promise<void> {
  // What is still queued for a slow pipe would be lost by an exit: half a JSON document, half a diff.
  const streams = [process.stdout, process.stderr].filter(
    (stream) => stream.writableLength > 0 && !stream.destroyed,
  )
  await Promise.all(streams.map((stream) => new Promise((done) => stream.write('', done))))
  await turn()
  if (failure === undefined) return
  const why = failure.code === 'ENOSPC' ? 'no space is left there' : (failure.code ?? failure.message)
  throw new OrangeryError('cli.output', `output: cannot be written (${why})`, {
    kind: 'cannot_create',
    hint: 'What was asked for is done; only the answer is not whole.',
  })
}
