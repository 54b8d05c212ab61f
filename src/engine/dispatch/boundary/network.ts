import { join } from 'node:path'
import type { NetworkUse } from '../../../shared/effective.ts'
import type { EventBody } from '../../../shared/events.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import type { NetworkPolicy } from '../../base/contract.ts'
import type { RunningSandbox } from '../../base/sandbox.ts'
import {
  aliasesFor,
  parseOutputs,
  startBroker,
  type Authority,
  type Broker,
  type CredentialGrant,
  type Proxies,
} from '../../egress/index.ts'
import { DecisionLog } from './decisionLog.ts'

export type NetworkOptions = {
  readonly id: DispatchId
  readonly runtime: string
  readonly sandbox: Pick<RunningSandbox, 'startRelay' | 'stopRelay' | 'tell'>
  readonly note: (event: EventBody) => void
  readonly credentials: readonly CredentialGrant[]
  /** Vouches for hosts whose TLS a secret lets us open. */
  readonly authority: Authority | null
  readonly proxies: Proxies | null
  /** A host that is missing, not forbidden: it may become a request, and the connection waits for the answer. */
  readonly beforeDenial: (host: string, port: number | null) => Promise<string | null>
  /** How often it is told what went over. */
  readonly carriedEveryMs?: number
}

/** Seldom enough that an agent which never stops talking does not fill the log. */
const usualCarriedEveryMs = 5000
const mostCarried = 100
/** What gets out before anybody has said what may. */
const nothing = parseOutputs({ mode: 'none' })

const unheardText = (hosts: readonly string[]): string =>
  `${hosts.join(', ')}: reached through the proxy only; nobody could listen there, mostly because a server of the agent's has the port`

export const egressPath = (runtime: string, id: DispatchId): string => join(runtime, `${id}.egress`)

/** The way out of one sandbox: the broker outside, the relay inside, and what they let through right now. */
export class Network implements AsyncDisposable {
  readonly #options: NetworkOptions
  readonly #log: DecisionLog
  readonly #socketPath: string
  #broker: Broker | null = null
  #policy: NetworkPolicy | null = null
  #last: Promise<void> = Promise.resolve()
  #isEnding = false
  #isHeard = false
  #unheard = ''
  #reach = ''
  #carried = '[]'
  #watch: NodeJS.Timeout | undefined

  constructor(options: NetworkOptions) {
    this.#options = options
    this.#log = new DecisionLog(options.note)
    this.#socketPath = egressPath(options.runtime, options.id)
  }

  /** Whether there is a broker that could tell of a denial. */
  get isOpen(): boolean {
    return this.#broker !== null
  }

  /** What was let through last; nothing before there was anything. */
  get policy(): NetworkPolicy | null {
    return this.#policy
  }

  /** Whether the relay stands, so that whoever asks for a name gets an answer. */
  get isHeard(): boolean {
    return this.#isHeard
  }

  /** Before it is known what is let through: nothing is. Whoever opens it then need not wait for the broker. */
  open(): void {
    this.#last = this.#startBroker(nothing).then(
      () => {},
      () => {},
    )
  }

  /**
   * Once it resolves, tunnels that are no longer allowed are cut, and what is allowed now can be reached. `isLazy`: a
   * relay that is not there yet starts when somebody comes to it.
   */
  set(policy: NetworkPolicy, isLazy = false): Promise<void> {
    this.#policy = policy
    this.#log.writeCounted()
    // The broker decides anew at once; listeners and names follow, one change after the other.
    this.#broker?.setPolicy(rulesOf(policy))
    this.#last = this.#last.catch(() => {}).then(() => this.#follow(policy, isLazy))
    return this.#last
  }

  usage(): NetworkUse {
    return this.#broker?.usage() ?? { allowed: [], denied: [] }
  }

  async #follow(policy: NetworkPolicy, isLazy: boolean): Promise<void> {
    const wanted = rulesOf(policy)
    const broker = await this.#startBroker(wanted)
    const { sandbox } = this.#options
    const reach = JSON.stringify(wanted)
    // One that sleeps is not woken to be told what it was told.
    if (this.#isEnding || (this.#isHeard && reach === this.#reach)) return
    this.#reach = reach
    const aliases = aliasesFor(wanted)
    const adopt = (relay: Parameters<Broker['adopt']>[0]) => broker.adopt(relay)
    const unheard = await sandbox.startRelay(this.#socketPath, aliases, adopt, isLazy)
    this.#isHeard = true
    const text = unheard.length === 0 ? '' : unheardText(unheard)
    // Whoever connects there is answered by somebody else, and nothing else would say so.
    if (text !== '' && text !== this.#unheard) this.#options.note({ type: 'Note', text })
    this.#unheard = text
  }

  async #startBroker(policy: ReturnType<typeof rulesOf>): Promise<Broker> {
    if (this.#broker !== null) return this.#broker
    const broker = await startBroker({
      socketPath: this.#socketPath,
      policy,
      credentials: this.#options.credentials,
      authority: this.#options.authority,
      proxies: this.#options.proxies,
      onDecision: (decided) => this.#log.add(decided),
      tell: (peer, line) => this.#options.sandbox.tell(peer, line),
      beforeDenial: ({ host, port }) => this.#options.beforeDenial(host, port),
    })
    this.#broker = broker
    // What was decided while it started holds.
    if (this.#policy !== null) broker.setPolicy(rulesOf(this.#policy))
    const every = this.#options.carriedEveryMs ?? usualCarriedEveryMs
    this.#watch ??= setInterval(() => this.#tellCarried(), every).unref()
    return broker
  }

  /** The end sums up; until then whoever watches sees here how much it has become. */
  #tellCarried(): void {
    const hosts = this.usage()
      .allowed.filter(({ connections }) => connections > 0)
      .map(({ host, connections, bytes }) => ({ host, connections, bytes: bytes ?? 0 }))
    const text = JSON.stringify(hosts)
    if (text === this.#carried) return
    this.#carried = text
    this.#options.note({ type: 'EgressCarried', hosts: hosts.slice(0, mostCarried) })
  }

  /** Of an agent that has ended: what it said as its last act still gets out. */
  async drain(enough: AbortSignal): Promise<void> {
    await this.#broker?.drain(enough)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnding = true
    clearInterval(this.#watch)
    // A relay that has yet to start would only be waited for, by a command that ended before it.
    await this.#options.sandbox.stopRelay()
    await this.#last.catch(() => {})
    await this.#broker?.close()
    this.#log.close()
  }
}

const rulesOf = ({ readOnly, ...rules }: NetworkPolicy) => parseOutputs({ ...rules, read_only: readOnly })
