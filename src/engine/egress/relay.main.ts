import { createInterface } from 'node:readline'
import { carryOver, handOver, startRelay, type RelaySettings, type Send } from './relay.ts'
import type { Order } from './wire.ts'

// Runs inside the sandbox's network namespace, on plain Node. It decides nothing: the broker does.
const settings = JSON.parse(process.argv[2] ?? '{}') as RelaySettings
const send: Send = (message, handle, sent) => process.send?.(message, handle, {}, sent)
const listening = process.send === undefined ? carryOver(settings.broker) : handOver(send)
const relay = await startRelay(settings, listening)
process.stdout.write('ready\n')
process.on('disconnect', () => process.exit(0))
process.on('message', (order: Order) => {
  if ('forget' in order) return relay.forget(order.forget)
  const { address } = order.listen
  void relay.listenAt(order.listen).then(() => process.send?.({ listened: address }))
})

for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === '') continue
  const failed = await relay.setAliases(JSON.parse(line) as RelaySettings['aliases'])
  process.stdout.write(failed.length === 0 ? 'updated\n' : `updated, without ${failed.join(' ')}\n`)
}
process.exit(0)
