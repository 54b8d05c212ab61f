import './closeInherited.ts'
import { once } from 'node:events'
import { writeSync } from 'node:fs'
import { reportError } from '../../shared/errors.ts'
import { logUnexpected } from '../base/log.ts'
import { superviseFromPipe } from './supervisor.ts'

const [dataDir = '', configDir = ''] = process.argv.slice(2)

// A supervisor belongs to no terminal and no window: only its control socket and its own end stop it.
process.on('SIGHUP', () => {})
process.on('SIGINT', () => {})

/** Whoever waits for its answer learns why there is none; a dispatch it had taken ends as interrupted. */
async function fallOver(error: unknown): Promise<void> {
  try {
    writeSync(1, `${JSON.stringify({ error: reportError(error) })}\n`)
  } catch {
    // Nobody waits any more.
  }
  await logUnexpected(dataDir, error)
  process.exit(70)
}
process.on('uncaughtException', (error) => void fallOver(error))

await superviseFromPipe({ dataDir, configDir }, process.stdin, (line) => process.stdout.write(`${line}\n`))
if (process.stdout.writableLength > 0) await once(process.stdout, 'drain')
process.exit(0)
