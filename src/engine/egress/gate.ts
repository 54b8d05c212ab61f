import { isIP, type Socket } from 'node:net'
import type { SecureContext } from 'node:tls'
import type { NetworkUse } from '../../shared/effective.ts'
import { isInCidr } from '../base/networks.ts'
import { refusedAddress } from './rules/addresses.ts'
import { portsOf } from './rules/aliases.ts'
import { Books, mostHosts } from './books.ts'
import type { Caps } from './rules/caps.ts'
import { dialFirst, withDeadline } from './dial/dial.ts'
import { reset } from './dial/endings.ts'
import { Denied, Unreachable } from './dial/failures.ts'
import type { Target, Wanted } from './rules/names.ts'
import { ownAddresses } from './rules/ownAddresses.ts'
import { decide, decideName, deniedAddress, type EgressDecision, type EgressPolicy } from './rules/policy.ts'
import type { Resolver } from './lookups/resolver.ts'
import {
  dialThrough,
  isLocalName,
  proxyFor,
  takesRequests,
  type Carrying,
  type Dialled,
  type Forwarder,
  type Proxies,
  type Proxy,
} from './dial/upstream.ts'

/** How a program asked; `name`: for an address, without a word about ports. */
export type Via = 'connect' | 'http' | 'socks' | 'alias' | 'name'

/** One decision as it is logged: exactly one per connection, or per request of plain HTTP. */
export type Decided = {
  readonly host: string
  /** Null where a program asked for the host's address and got none. */
  readonly port: number | null
  readonly allowed: boolean
  readonly why: string
  readonly via: Via
  /** A wider boundary could let it through: it is missing, not forbidden. */
  readonly grantable: boolean
}

export type Passage = {
  readonly target: Target
  readonly via: Via
  readonly upstream: Socket
  /** The user said where it leads. */
  readonly pinned: boolean
  /** The connection is to a proxy, which takes whole requests and no bytes. */
  readonly forwarder: Forwarder | null
  /** The same by the next address that was checked, for a request that the proxy could not deliver; null: there is none. */
  readonly next: (() => Promise<Passage>) | null
}

/** Called when a passage is taken away; null: with the whole sandbox, so that nobody is left to be told. */
export type Cut = (denied: Denied | null) => void

type Live = Passage & {
  readonly cut: Cut
  readonly dial: string
  /** Where it leads; null where only the proxy knows. */
  readonly place: Target | null
  counted: number
}
const withWords = (why: string, said: string | null): string => (said === null ? why : `${why}; ${said}`)

type Allowed = Extract<EgressDecision, { allowed: true }>

/** Where a proxy resolves, our own lookup is a check and not worth a long wait. */
const proxiedLookupMs = 2000
const noHost = '(not a host)'
const unknownHere =
  'its address is not known here, and your proxy is asked for addresses only (sandboxProxyResolves in your config)'

/** Called before a missing host is denied; the connection waits for it. Gives the words of who said no, if any. */
export type BeforeDenial = (wanted: Wanted) => Promise<string | null>

export type GateOptions = {
  readonly caps: Caps
  readonly resolver: Resolver
  readonly onDecision: (decided: Decided) => void
  readonly beforeDenial?: BeforeDenial | undefined
  /** What the log says of a tunnel besides why it is allowed. */
  readonly remark?: (target: Target) => string
  /** Proxies of the user's own, through which everything goes that is not pinned. */
  readonly proxies?: Proxies | null
  readonly trust: () => SecureContext
}

/** Decides, resolves, checks, dials and keeps the books. Every way in ends here. */
export class Gate {
  #policy: EgressPolicy
  #closed = false
  /** Resolving or dialling: they hold a place as those do that are open. */
  #opening = 0
  readonly #options: GateOptions
  readonly #caps: Caps
  readonly #live = new Set<Live>()
  readonly #books = new Books()

  constructor(policy: EgressPolicy, options: GateOptions) {
    this.#policy = policy
    this.#options = options
    this.#caps = options.caps
  }

  get policy(): EgressPolicy {
    return this.#policy
  }
  get halfClosedMs(): number {
    return this.#caps.halfClosedMs
  }
  get open(): number {
    return this.#live.size
  }
  get opening(): number {
    return this.#opening
  }
  get upstreams(): readonly Socket[] {
    return [...this.#live].map(({ upstream }) => upstream)
  }

  /**
   * Leads one connection out, or throws `Denied` or `Unreachable`. `cut` is called when the passage is taken
   * away later: by a narrower policy or a cap.
   */
  async pass(asked: Target, via: Via, cut: Cut, carrying: Carrying = 'tunnel'): Promise<Passage> {
    const decision = await this.#allow(asked, via)
    const { target } = decision
    if (this.#live.size + this.#opening >= this.#caps.connections) {
      throw this.deny(target, via, `more than ${this.#caps.connections} connections at one time`)
    }
    if (this.#bytesSoFar() >= this.#caps.bytes) {
      throw this.deny(target, via, `more than ${this.#caps.bytes} bytes in all`)
    }
    // Counted from here on: whoever waits for a slow name would else get past the cap by the thousand. (escape: slow-name-flood)
    this.#opening++
    try {
      return await this.#open(decision, via, cut, carrying)
    } catch (error) {
      if (error instanceof Unreachable) this.#books.failed(target.host)
      throw error
    } finally {
      this.#opening--
    }
  }

  async #allow(asked: Target, via: Via): Promise<Allowed> {
    const decision = await this.#decideOrAsk(asked)
    if (decision.allowed) return decision
    throw this.deny(decision.target, via, decision.why, decision.grantable)
  }

  /** Denies what may not be asked of a host; of one that may not be reached at all, that is the reason, and can be granted. */
  async denyUse(asked: Target, via: Via, why: string): Promise<Denied> {
    const { target } = await this.#allow(asked, via)
    return this.deny(target, via, why)
  }

  async #open(decision: Allowed, via: Via, cut: Cut, carrying: Carrying): Promise<Passage> {
    const { target } = decision
    // Whoever is asked where a name leads has been told the name.
    if (isIP(target.host) === 0) this.#admit(target, via)
    const deadline = Date.now() + this.#caps.connectMs
    const proxy = this.#proxyFor(decision, carrying)
    const isNamed = proxy !== null && this.#options.proxies?.resolve === true
    const places = isNamed
      ? await this.#checkName(target, via)
      : await this.#addresses(decision, via, deadline, proxy)
    this.#admit(target, via)
    const remark = via === 'http' ? '' : (this.#options.remark?.(target) ?? '')
    this.#decided(target, via, true, decision.why + remark)
    const port = decision.dial.kind === 'address' ? decision.dial.port : target.port
    if (proxy !== null) return this.#openThrough(proxy, decision, via, cut, carrying, places)
    const dialled = await dialFirst(target, places, port, deadline)
    const { upstream, place } = dialled
    // Whatever way the kernel found to ourselves. A pin may lead there.
    if (decision.dial.kind === 'resolve' && upstream.localAddress === upstream.remoteAddress) {
      upstream.destroy()
      throw this.deny(target, via, `it leads to ${place.host}, this machine's own address`)
    }
    return this.#enter(decision, via, cut, { ...dialled, forwarder: null }, null)
  }

  #admit(target: Target, via: Via): void {
    if (!this.#books.admit(target.host)) throw this.deny(target, via, `more than ${mostHosts} hosts in all`)
  }

  async #openThrough(
    proxy: Proxy,
    decision: Allowed,
    via: Via,
    cut: Cut,
    carrying: Carrying,
    places: readonly string[],
  ): Promise<Passage> {
    const { resolver, trust } = this.#options
    const given = { resolver, trust, deadline: Date.now() + this.#caps.connectMs }
    const way = await dialThrough(proxy, decision.target, places, carrying, given)
    const next = async () => {
      this.#opening++
      const opened = this.#openThrough(proxy, decision, via, cut, carrying, way.others)
      return opened.finally(() => this.#opening--)
    }
    return this.#enter(decision, via, cut, way, way.others.length === 0 ? null : next)
  }

  #enter(
    decision: Allowed,
    via: Via,
    cut: Cut,
    { upstream, forwarder, place }: Omit<Dialled, 'others'>,
    next: Passage['next'],
  ): Passage {
    const { target } = decision
    // The policy may have become narrower while we resolved and dialled.
    const now = this.#closed ? null : decide(this.#policy, target)
    const deniedNow = this.#deniedPlace(place)
    if (now === null || !now.allowed || dialKey(now) !== dialKey(decision) || deniedNow !== null) {
      upstream.destroy()
      throw this.deny(
        target,
        via,
        now !== null && !now.allowed ? now.why : (deniedNow ?? 'the boundary changed'),
      )
    }
    const pinned = decision.dial.kind !== 'resolve'
    const ways = { pinned, forwarder, place, next, dial: dialKey(decision) }
    return this.#register({ target, via, upstream, cut, counted: 0, ...ways })
  }

  /**
   * Whether some port of a host may be reached, for a program that asks for its address; throws `Denied`. Where
   * it may, that is no decision yet: the connection is.
   */
  async lookUp(host: string): Promise<void> {
    const isReachable = () => portsOf(this.#policy, host).length > 0
    if (isReachable()) return
    const { why, grantable } = decideName(this.#policy, host)
    const said = grantable ? await this.#ask({ host, port: null }) : null
    if (!isReachable()) throw this.deny({ host, port: null }, 'name', withWords(why, said), grantable)
  }

  /** Whether plain requests to a host go to a proxy that takes them whole. */
  forwards(asked: Target): boolean {
    const decision = decide(this.#policy, asked)
    return decision.allowed && takesRequests(this.#proxyFor(decision, 'request'))
  }

  /** Where the user said where a name leads, nobody is asked on the way. */
  #proxyFor({ dial, target }: Allowed, carrying: Carrying): Proxy | null {
    return dial.kind === 'resolve' ? proxyFor(this.#options.proxies ?? null, target, carrying) : null
  }

  /**
   * Where the user lets the proxy resolve, a name that is unknown here is the proxy's to judge (ADR 63). What we can know
   * we check all the same: an address, a name that leads to a refused one here, a name of the proxy's own network.
   */
  async #checkName(target: Target, via: Via): Promise<readonly string[]> {
    const found =
      isIP(target.host) === 0
        ? await withDeadline(this.#options.resolver(target.host), Date.now() + proxiedLookupMs).catch(
            () => [],
          )
        : [target.host]
    const own = await ownAddresses()
    // Which of them the proxy takes is its own affair: one that is denied denies them all.
    for (const address of found) {
      const why = deniedAddress(this.#policy, address, target.port) ?? refusedAddress(address, own)
      if (why !== null) throw this.deny(target, via, `it leads to ${address}, ${why}`)
    }
    if (isLocalName(target.host)) throw this.deny(target, via, 'the name belongs to a local network')
    return [target.host]
  }

  /** Where someone may grant what is missing, he is asked first: a saved yes answers before the program notices. */
  async #decideOrAsk(asked: Target): Promise<EgressDecision> {
    const decision = decide(this.#policy, asked)
    if (decision.allowed || !decision.grantable || this.#options.beforeDenial === undefined) return decision
    const said = await this.#ask(decision.target)
    const now = decide(this.#policy, asked)
    return now.allowed ? now : { ...now, why: withWords(now.why, said) }
  }

  async #ask(wanted: Wanted): Promise<string | null> {
    return (await this.#options.beforeDenial?.(wanted).catch(() => null)) ?? null
  }

  /** Books a denial and gives the error that the program is told. */
  deny(target: Wanted, via: Via, why: string, grantable = false): Denied {
    this.#decided(target, via, false, why, grantable)
    return new Denied(target, why)
  }

  /** Books an attempt that named no host: whatever it was to be, it is on record. */
  denyNonsense(via: Via, why = 'not a host and port'): Denied {
    return this.deny({ host: noHost, port: null }, via, why)
  }

  /** New connections at once; open ones that the new policy would not have let out are cut. */
  setPolicy(policy: EgressPolicy): void {
    this.#policy = policy
    for (const live of this.#live) {
      const decision = decide(policy, live.target)
      const denied = this.#deniedPlace(live.place)
      if (decision.allowed && dialKey(decision) === live.dial && denied === null) continue
      this.#cut(live, decision.allowed ? (denied ?? 'the pin changed') : decision.why)
    }
  }

  usage(): NetworkUse {
    for (const live of this.#live) this.#count(live)
    return this.#books.use()
  }

  /** Called now and then while something is open. */
  enforceCaps(): void {
    if (this.#bytesSoFar() < this.#caps.bytes) return
    for (const live of this.#live) this.#cut(live, `more than ${this.#caps.bytes} bytes in all`)
  }

  close(): void {
    this.#closed = true
    for (const live of this.#live) {
      live.cut(null)
      // What was not delivered by now is half of something.
      reset(live.upstream)
    }
  }

  #cut(live: Live, why: string): void {
    this.#decided(live.target, live.via, false, why)
    live.cut(new Denied(live.target, why))
    reset(live.upstream)
  }

  #deniedPlace(place: Target | null): string | null {
    const why = place === null ? null : deniedAddress(this.#policy, place.host, place.port)
    return place === null || why === null ? null : `it leads to ${place.host}, ${why}`
  }

  async #addresses(
    decision: Allowed,
    via: Via,
    deadline: number,
    proxy: Proxy | null,
  ): Promise<readonly string[]> {
    const { target, dial } = decision
    const port = dial.kind === 'address' ? dial.port : target.port
    const denied = (address: string) => deniedAddress(this.#policy, address, port)
    if (dial.kind === 'address') {
      const why = denied(dial.address)
      if (why !== null) throw this.deny(target, via, `it leads to ${dial.address}, ${why}`)
      return [dial.address]
    }
    const found =
      isIP(target.host) === 0 ? await this.#resolve(decision, via, deadline, proxy) : [target.host]
    const own = await ownAddresses()
    // What was checked is what is dialled, and what a proxy is asked for: a second lookup, here or there, could answer
    // differently. (escape: egress-rebinding, rebinding-behind-a-proxy)
    const refusals = found.map((address) => {
      if (dial.kind !== 'network') return denied(address) ?? refusedAddress(address, own)
      return (
        denied(address) ?? (isInCidr(address, dial.cidr) ? null : `outside the pinned network ${dial.cidr}`)
      )
    })
    const good = found.filter((_, index) => refusals[index] === null)
    if (good.length > 0) return good
    throw this.deny(target, via, `it leads to ${found[0] ?? 'nothing'}, ${refusals[0] ?? 'no address'}`)
  }

  async #resolve(
    { target, why }: Allowed,
    via: Via,
    deadline: number,
    proxy: Proxy | null,
  ): Promise<readonly string[]> {
    try {
      return await withDeadline(this.#options.resolver(target.host), deadline)
    } catch (error) {
      if (proxy !== null) throw this.deny(target, via, unknownHere)
      this.#decided(target, via, true, why)
      throw new Unreachable(target, (error as NodeJS.ErrnoException).code ?? 'no such host')
    }
  }

  #register(live: Live): Passage {
    this.#live.add(live)
    this.#books.opened(live.target.host)
    const lifetime = setTimeout(
      () => this.#cut(live, 'the connection was open too long'),
      this.#caps.lifetimeMs,
    )
    lifetime.unref()
    live.upstream.setTimeout(this.#caps.idleMs, () => this.#cut(live, 'the connection was idle too long'))
    live.upstream.once('close', () => {
      clearTimeout(lifetime)
      this.#count(live)
      this.#live.delete(live)
    })
    return live
  }

  #count(live: Live): void {
    const bytes = live.upstream.bytesRead + live.upstream.bytesWritten
    this.#books.carried(live.target.host, bytes - live.counted)
    live.counted = bytes
  }

  #bytesSoFar(): number {
    for (const live of this.#live) this.#count(live)
    return this.#books.bytes
  }

  #decided(target: Wanted, via: Via, allowed: boolean, why: string, grantable = false): void {
    const host = allowed ? target.host : this.#books.denied(target.host, why)
    const port = host === target.host ? target.port : null
    this.#options.onDecision({ host, port, allowed, why, via, grantable })
  }
}

const dialKey = (decision: Allowed): string => JSON.stringify(decision.dial)
