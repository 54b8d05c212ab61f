import { OrangeryError } from '../../shared/errors.ts'
import { printError } from '../failure.ts'

/**
 * Files do not stay half-way: on Ctrl-C the work goes on or is taken back, and whoever pressed it is told. A second one ends us, and the
 * next start brings the work to its end.
 */
export async function notCutOff<T>(what: string, work: () => Promise<T>): Promise<T> {
  let isTold = false
  const onInterrupt = () => {
    if (isTold) {
      printError(
        `${what}: left as it is`,
        'The next command finishes it or takes it back: no file stays half-way.',
      )
      process.exit(130)
    }
    isTold = true
    printError(
      `${what}: it is done as a whole or not at all`,
      'What comes of it is told in a moment. Ctrl-C once more does not wait for that.',
    )
  }
  process.on('SIGINT', onInterrupt)
  try {
    return await work()
  } catch (error) {
    if (!isTold) throw error
    // A terminal tells the programs we had started, too: what ends with them is taken back.
    const { code, kind, hint, details } = error instanceof OrangeryError ? error : interrupted
    const why = error instanceof Error ? error.message : String(error)
    throw new OrangeryError(code, `${what}: Ctrl-C cut it off: ${why}`, {
      kind: kind === 'internal' ? 'busy' : kind,
      hint: hint ?? 'No file stays half-way. Try again.',
      details,
    })
  } finally {
    process.off('SIGINT', onInterrupt)
  }
}

const interrupted = {
  code: 'changeset.interrupted',
  kind: 'busy',
  hint: undefined,
  details: undefined,
} as const
