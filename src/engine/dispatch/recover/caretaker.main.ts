import { logUnexpected } from '../../base/log.ts'
import { recoverLandings } from '../landing/cutOffLandings.ts'
import { openParts } from '../openParts.ts'
import { tidyUp } from './tidy.ts'

const [dataDir = '', configDir = ''] = process.argv.slice(2)

// Nobody waits for it; the next command tries again and tells a person.
const onUnexpected = (error: unknown): void => void logUnexpected(dataDir, error)
try {
  await using parts = await openParts({ dataDir, configDir })
  await recoverLandings(parts).catch(onUnexpected)
  await tidyUp(parts, onUnexpected)
} catch (error) {
  await logUnexpected(dataDir, error)
}
process.exit(0)
