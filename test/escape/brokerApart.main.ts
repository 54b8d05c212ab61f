import { parseOutputs, startBroker } from '../../src/engine/egress/index.ts'
import type { Apart, ToBroker } from './channel.ts'

// A supervisor with nothing but its brokers, in a process that can have a network and limits of its own. The messages of
// the relay are passed on to it as if it had started that.
const { address, brokers } = JSON.parse(process.argv[2] ?? '{}') as Apart
const resolver = async () => [address]
const started = await Promise.all(
  brokers.map(({ socketPath, rules, caps }) =>
    startBroker({
      socketPath,
      policy: parseOutputs(rules),
      resolver,
      ...(caps === undefined ? {} : { caps }),
      onDecision: ({ host, why }) => process.send?.({ decided: { host, why } }),
    }),
  ),
)
const [first] = started
first?.adopt(process as unknown as Parameters<typeof first.adopt>[0])
process.on('message', (message: ToBroker) => {
  if (message.rules === undefined) return
  first?.setPolicy(parseOutputs(message.rules))
  process.send?.({ changed: true })
})
process.once('disconnect', () => process.exit())
process.send?.({ ready: true })
