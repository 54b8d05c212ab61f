import { createInterface } from 'node:readline'
import {
  carryOver,
  handOver,
  inheritedFrom,
  startRelay,
  takeOrders,
  type RelaySettings,
  type Send,
} from './relay.ts'
import type { Order } from './wire.ts'

// Runs inside the sandbox's network namespace, on plain Node. It decides nothing: the broker does.
const settings = JSON.parse(process.argv[2] ?? '{}') as RelaySettings
let unsent = 0
let onAllSent = () => {}
const send: Send = (message, handle, sent) => {
  unsent++
  process.send?.(message, handle, {}, () => {
    unsent--
    sent?.()
    if (unsent === 0) onAllSent()
  })
}
const patienceMs = 2000
/**
 * We end with the sandbox, and so does every listener that is still ours: who is let go before they are on their way
 * may say his last word to one.
 */
const allSent = () =>
  new Promise<void>((resolve) => {
    if (unsent === 0) return resolve()
    const timer = setTimeout(resolve, patienceMs)
    onAllSent = () => {
      clearTimeout(timer)
      resolve()
    }
  })
const carries = process.send === undefined
const relay = await startRelay(
  settings,
  carries ? carryOver(settings.broker) : handOver(send),
  inheritedFrom(process.env['ORANGERY_LISTENING']),
)
if (carries) await takeOrders(settings.broker, relay)
await allSent()
process.stdout.write('ready\n')
process.on('disconnect', () => process.exit(0))
process.on('message', (order: Order) => {
  void relay.follow(order).then((address) => address !== null && process.send?.({ listened: address }))
})

for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === '') continue
  const failed = await relay.setAliases(JSON.parse(line) as RelaySettings['aliases'])
  await allSent()
  process.stdout.write(failed.length === 0 ? 'updated\n' : `updated, without ${failed.join(' ')}\n`)
}
process.exit(0)
