import { isIP, type Socket } from 'node:net'
import { ownName, type HostAlias, type Peer } from '../../base/sandbox.ts'
import { addressOf, aliasesFor, aliasOf, heardPortsOf } from '../rules/aliases.ts'
import { encodeAnswer, parseQuestion, type Answer, type Question } from './dns.ts'
import { Denied } from '../dial/failures.ts'
import type { Gate } from '../gate.ts'
import { normaliseHost, type Target } from '../rules/names.ts'
import type { EgressPolicy } from '../rules/policy.ts'
import type { TellWhy } from '../telling.ts'

type Refusal = { readonly answer: Answer; readonly until: number; readonly types: Set<number> }

export type LookupOptions = {
  readonly gate: Gate
  readonly tell?: TellWhy
  /** Has the relay listen where a host's address is; false where nobody will. */
  readonly listenAt: (alias: HostAlias) => Promise<boolean>
  readonly forget: (alias: HostAlias) => void
  /** How many hosts that no rule names are listened for at one time. */
  readonly mostAliases: number
}

/** A program asks for both kinds of address: that is one attempt, and one event. Who asks for one again tries again. */
const refusalHoldsMs = 1000
const mostRemembered = 256
/** Names below a wildcard are the agent's to invent; each costs a few listeners, which are open files. */
const mostAliases = 128
const filesForEach = 6

/** A quarter of the open files, so that connections and the record have theirs. Null: nobody knows how many there are. */
export const aliasesWithin = (openFiles: number | null): number =>
  Math.min(mostAliases, Math.max(1, Math.floor((openFiles ?? Infinity) / 4 / filesForEach)))

const mostWaiting = 256
const mostGiven = 4096

const unheard = 'nothing could be made to listen for it: too many open files, or the relay is gone'

const blockedText = (why: string): Answer => ({ code: 'no such name', why })

/**
 * Answers programs that ask for a name instead of using the proxy. A name that may be reached leads to an address
 * of the sandbox's own, where the relay listens; any other does not exist, and the attempt is on record. Nothing
 * is ever asked outside: a name can carry what it likes, and nobody hears it. (escape: egress-name-lookup)
 */
export class Lookups {
  readonly #options: LookupOptions
  #policy: EgressPolicy
  #named: ReadonlyMap<string, HostAlias> = new Map()
  /** For hosts that no rule names but some rule covers; the one asked for last is the last. */
  readonly #asked = new Map<string, HostAlias>()
  /** Every address that ever stood for a host: who resolved it asks for the address. */
  readonly #given = new Map<string, string>()
  readonly #deciding = new Map<string, Promise<Answer>>()
  readonly #refused = new Map<string, Refusal>()

  constructor(policy: EgressPolicy, options: LookupOptions) {
    this.#options = options
    this.#policy = policy
    this.setPolicy(policy)
  }

  /** Hosts beside the named ones that something listens for. */
  get aliases(): readonly HostAlias[] {
    return [...this.#asked.values()]
  }

  /** From now on; listeners of hosts that can no longer be reached are given up. */
  setPolicy(policy: EgressPolicy): void {
    this.#policy = policy
    this.#named = new Map(aliasesFor(policy).map((alias) => [alias.host, alias]))
    for (const alias of this.#named.values()) this.#remember(alias)
    this.#refused.clear()
    const taken = new Set([...this.#named.values()].map(({ address }) => address))
    for (const alias of this.#asked.values()) {
      const ports = heardPortsOf(policy, alias.host)
      const same = ports.length === alias.ports.length && ports.every((port) => alias.ports.includes(port))
      if (!same || taken.has(alias.address)) this.#drop(alias)
    }
  }

  /** What a program means that resolved a name by itself and asks a proxy for the address (`socks5://`). */
  named({ host, port }: Target): Target {
    return { host: this.#given.get(host) ?? host, port }
  }

  #remember({ address, host }: HostAlias): void {
    this.#given.delete(address)
    this.#given.set(address, host)
    const [oldest] = this.#given.keys()
    if (this.#given.size > mostGiven && oldest !== undefined) this.#given.delete(oldest)
  }

  /** Null: nothing is said. */
  async answer(message: Buffer, from?: Peer | Socket): Promise<Buffer | null> {
    const question = parseQuestion(message)
    if (question === null || Buffer.isBuffer(question)) return question
    return encodeAnswer(question, await this.#decide(question, from))
  }

  async #decide({ name, type }: Question, from?: Peer | Socket): Promise<Answer> {
    const host = name === null ? null : normaliseHost(name)
    // A name that is written like an address is no name: resolvers would dial what it spells.
    if (host === null || isIP(host) !== 0) {
      this.#options.gate.denyNonsense('name')
      return { code: 'no such name' }
    }
    if (host === ownName || host === 'localhost' || host.endsWith('.localhost')) {
      return { code: 'ok', addresses: ['127.0.0.1'] }
    }
    // Who has which address says nothing about who wants to reach whom.
    if (host.endsWith('.arpa')) return { code: 'no such name' }
    const refused = this.#refused.get(host)
    if (refused !== undefined && refused.until > Date.now() && !refused.types.has(type)) {
      refused.types.add(type)
      return refused.answer
    }
    const known = this.#deciding.get(host)
    if (known !== undefined) return known
    if (this.#deciding.size >= mostWaiting) return { code: 'failed' }
    const deciding = this.#lookUp(host, type, from).finally(() => this.#deciding.delete(host))
    this.#deciding.set(host, deciding)
    return deciding
  }

  async #lookUp(host: string, type: number, from?: Peer | Socket): Promise<Answer> {
    try {
      await this.#options.gate.lookUp(host)
    } catch (error) {
      if (!(error instanceof Denied)) return { code: 'failed' }
      if (from !== undefined) await this.#options.tell?.(from, error)
      const answer = blockedText(error.message)
      if (this.#refused.size >= mostRemembered) this.#refused.clear()
      this.#refused.set(host, { answer, until: Date.now() + refusalHoldsMs, types: new Set([type]) })
      return answer
    }
    const alias = this.#aliasOf(host)
    if (await this.#options.listenAt(alias)) return { code: 'ok', addresses: [alias.address] }
    // An address at which nobody listens would be a refusal that nobody hears of.
    const failure = this.#options.gate.deny({ host, port: null }, 'name', unheard)
    if (from !== undefined) await this.#options.tell?.(from, failure)
    return { code: 'failed', why: failure.message }
  }

  #aliasOf(host: string): HostAlias {
    const known = this.#named.get(host)
    if (known !== undefined) return known
    const taken = new Set([...this.#named.values(), ...this.#asked.values()].map(({ address }) => address))
    const before = this.#asked.get(host)
    const ports = heardPortsOf(this.#policy, host)
    const alias = before ?? aliasOf(this.#policy, { host, ports }, addressOf(host, taken))
    this.#asked.delete(host)
    this.#asked.set(host, alias)
    this.#remember(alias)
    const [oldest] = this.#asked.values()
    if (this.#asked.size > this.#options.mostAliases && oldest !== undefined) this.#drop(oldest)
    return alias
  }

  #drop(alias: HostAlias): void {
    this.#asked.delete(alias.host)
    this.#options.forget(alias)
  }
}
