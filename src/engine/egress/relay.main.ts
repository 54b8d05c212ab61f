import { createInterface } from 'node:readline'
import { startRelay, type RelaySettings } from './relay.ts'

// Runs inside the sandbox's network namespace, on plain Node. It decides nothing: the broker does.
const settings = JSON.parse(process.argv[2] ?? '{}') as RelaySettings
const relay = await startRelay(settings)
process.stdout.write('ready\n')

const lines = createInterface({ input: process.stdin })
for await (const line of lines) {
  if (line.trim() === '') continue
  const failed = await relay.setAliases(JSON.parse(line) as RelaySettings['aliases'])
  process.stdout.write(failed.length === 0 ? 'updated\n' : `updated, without ${failed.join(' ')}\n`)
}
process.exit(0)
