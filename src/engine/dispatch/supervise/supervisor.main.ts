import './closeInherited.ts'
import { writeSync } from 'node:fs'
import { reportError } from '../../../shared/errors.ts'
import { logUnexpected } from '../../base/log.ts'

const [dataDir = '', configDir = ''] = process.argv.slice(2)

// A supervisor belongs to no terminal and no window: only its control socket and its own end stop it.
process.on('SIGHUP', () => {})
process.on('SIGINT', () => {})

/** At once and without a stream, whose making would be part of an agent's wait. */
function answer(line: string): void {
  try {
    writeSync(1, `${line}\n`)
  } catch {
    // Nobody waits any more.
  }
}

/** Whoever waits for its answer learns why there is none; a dispatch it had taken ends as interrupted. */
async function fallOver(error: unknown): Promise<void> {
  answer(JSON.stringify({ error: reportError(error) }))
  await logUnexpected(dataDir, error)
  process.exit(70)
}
process.on('uncaughtException', (error) => void fallOver(error))

// Loaded now: in a bundle, modules that are imported at the top run before what this one begins with.
const { superviseFromPipe } = await import('./supervisor.ts')
await superviseFromPipe({ dataDir, configDir }, process.stdin, answer)
process.exit(0)
