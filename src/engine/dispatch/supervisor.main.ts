import { once } from 'node:events'
import { superviseFromPipe } from './supervisor.ts'

// A supervisor belongs to no terminal and no window: only its control socket and its own end stop it.
process.on('SIGHUP', () => {})
process.on('SIGINT', () => {})

const [dataDir = '', configDir = ''] = process.argv.slice(2)
await superviseFromPipe({ dataDir, configDir }, process.stdin, (line) => process.stdout.write(`${line}\n`))
if (process.stdout.writableLength > 0) await once(process.stdout, 'drain')
process.exit(0)
