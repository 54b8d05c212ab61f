import { constants } from 'node:os'
import { printError } from '../failure.ts'

const endings = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
/** A terminal and a wrapper that passes signals on both tell of one Ctrl-C. */
const echoMs = 200

/**
 * Takes back what is being made when we are asked to end, and ends as the signal says: cut off by it, half of it would
 * stay behind. Null where that happened; what was made before it could be taken back stands.
 */
export async function takenBackOnSignal<T>(
  what: string,
  make: (signal: AbortSignal) => Promise<T>,
): Promise<T | null> {
  const abort = new AbortController()
  let first: { readonly code: number; readonly at: number } | undefined
  const onSignal = (name: (typeof endings)[number]) => {
    const at = performance.now()
    if (first === undefined) {
      first = { code: 128 + constants.signals[name], at }
      abort.abort()
    } else if (at - first.at > echoMs) {
      printError(`${what}: left as it is`, 'What is there of it is listed by: orangery agent orphans')
      process.exit(128 + constants.signals[name])
    }
  }
  for (const name of endings) process.on(name, onSignal)
  try {
    return await make(abort.signal)
  } catch (error) {
    if (first === undefined) throw error
    printError(
      `${what}: it was interrupted, and what was made is taken back`,
      'What could not be taken back is listed by: orangery agent orphans',
    )
    process.exitCode = first.code
    return null
  } finally {
    for (const name of endings) process.off(name, onSignal)
  }
}
