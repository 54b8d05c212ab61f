import type { EventBody } from '../../../shared/events.ts'
import type { RunningSandbox, TurnedAway } from '../../base/sandbox.ts'

/** What stands in the record in place of a host where only the kernel knew which it was. */
export const unnamedHosts = { address: '(an address)', name: '(a name)' } as const

const whys = {
  address: 'no address has a route: hosts are reached by name, or through the proxy',
  name: 'outputs are none, and nobody answers questions for names',
} as const

const lookEveryMs = 1000

/**
 * Puts on record what never came as far as the broker: connections to bare addresses, which the kernel refuses at
 * once, and questions for names where nobody is there to answer. It counts and does not say whereto, so that
 * a second of them is one event.
 */
export function watchTurnedAway(
  sandbox: Pick<RunningSandbox, 'turnedAway'>,
  note: (event: EventBody) => void,
  /** Whether somebody answers questions for names by now. */
  isAnswered: () => boolean,
): Disposable {
  const nothing: TurnedAway = { addresses: 0, datagrams: 0 }
  let before = sandbox.turnedAway() ?? nothing
  let wasAnswered = isAnswered()
  const look = () => {
    const now = sandbox.turnedAway() ?? before
    const tried = now.addresses - before.addresses
    if (tried > 0) tell('address', tried)
    // Once there is an answer to every question, a datagram that nobody takes is the agent's own business.
    if (now.datagrams > before.datagrams && !wasAnswered) tell('name', 1)
    before = now
    wasAnswered = isAnswered()
  }
  const tell = (kind: keyof typeof unnamedHosts, count: number) => {
    const decided = { host: unnamedHosts[kind], port: null, allowed: false, why: whys[kind] }
    note({ type: 'EgressDecided', ...decided, ...(count === 1 ? {} : { count }) })
  }
  const timer = setInterval(look, lookEveryMs).unref()
  return {
    [Symbol.dispose]() {
      clearInterval(timer)
      look()
    },
  }
}
