import { createInterface } from 'node:readline'
import { carryOver, handOver, startRelay, type RelaySettings, type Send } from './relay.ts'

// Runs inside the sandbox's network namespace, on plain Node. It decides nothing: the broker does.
const settings = JSON.parse(process.argv[2] ?? '{}') as RelaySettings
const send: Send = (message, server, sent) => process.send?.(message, server, {}, sent)
const listening = process.send === undefined ? carryOver(settings.broker) : handOver(send)
const relay = await startRelay(settings, listening)
process.stdout.write('ready\n')
process.on('disconnect', () => process.exit(0))

for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === '') continue
  const failed = await relay.setAliases(JSON.parse(line) as RelaySettings['aliases'])
  process.stdout.write(failed.length === 0 ? 'updated\n' : `updated, without ${failed.join(' ')}\n`)
}
process.exit(0)
