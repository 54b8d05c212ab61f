import { isDeepStrictEqual } from 'node:util'
import { boundaryRank, type BoundaryLevel } from '../../../shared/boundary.ts'
import type { BoundaryGrant } from '../../../shared/escalation.ts'
import type { EventBody } from '../../../shared/events.ts'
import type { NetworkPolicy, WritableScopes } from '../../base/contract.ts'
import type { RunningSandbox } from '../../base/sandbox.ts'
import type { EscalationState, Need } from '../../base/escalation.ts'
import type { Answered, Asked, Listener, Shown, Waiting } from '../../door/index.ts'
import type { Authority } from '../../egress/index.ts'
import {
  Boundaries,
  contractHeld,
  currentBoundary,
  givenByConfig,
  heldByConfig,
  isShut,
  loadConfig,
  networkAt,
  networkNow,
  opensEverything,
  opensGrantedOnly,
  scopeAt,
  stillTaken,
  withMaximum,
  type EffectiveConfig,
} from '../../policy/index.ts'
import { readContract } from '../prepare/contractFile.ts'
import type { Observations } from '../record/effective.ts'
import { configPlaces, type FollowedConfig } from './followedConfig.ts'
import type { Job } from '../prepare/job.ts'
import { LapsedRequests } from './lapsedRequests.ts'
import { Network } from './network.ts'
import { Questions } from './questions.ts'
import { reachShown } from './answerWords.ts'
import type { Parts } from '../parts.ts'
import { speakTo } from '../supervise/speak.ts'
import { UntilNarrowed } from './untilNarrowed.ts'

/** All that the records say of hosts, to tell whether it changed. */
function reachOf(state: Pick<EscalationState, 'start' | 'grants' | 'requests'>): string {
  const { hosts, taken, returned } = currentBoundary(state)
  const opened = [opensGrantedOnly(state), opensEverything(state), isShut(state)]
  return JSON.stringify([opened, hosts, taken, returned])
}

/** The boundary a dispatch begins with; null where there is none to keep. */
type StartingBoundary = {
  /** What changed it since its contract was worked out. */
  readonly changed: Pick<BoundaryGrant, 'by' | 'why'> | null
  /** Whether the config, read again since, leaves no room for it. */
  readonly isBeyond: boolean
  /** The network as the contract has it, on its way. */
  readonly opening: Promise<void>
} | null

/** An agent that sees its last requests sees enough. */
const mostShown = 20

/**
 * Keeps a running sandbox at the boundary the records say: files and network follow, live. Whoever asks for a
 * change only says "look again", so that nobody can widen a sandbox past what is on record.
 */
export class LiveBoundary implements AsyncDisposable, Listener {
  readonly #parts: Parts
  readonly #job: Job
  readonly #sandbox: Promise<RunningSandbox>
  readonly #note: (event: EventBody) => void
  readonly #seen: Observations
  /** Told of the boundary that holds from now on, and of the config it was worked out with. */
  readonly #changed: (level: BoundaryLevel, config: EffectiveConfig) => void
  /** What can be written at which level, as the agent sees it. */
  readonly #scopes: WritableScopes
  readonly #network: Network
  readonly #boundaries: Boundaries
  readonly #questions: Questions
  #level: BoundaryLevel
  #writable: readonly string[] | null
  /** What it reaches besides the contract's hosts; null: nobody knows. */
  #reach: string | null
  #told: string
  /** What was let through before a change that did not take. */
  #policyBefore: NetworkPolicy | null = null
  #config: EffectiveConfig | undefined
  readonly #ending = new AbortController()
  #following: Promise<unknown> = Promise.resolve()
  readonly #lapsed: LapsedRequests
  readonly #narrowing = new UntilNarrowed(() => this.#narrowFiles())

  constructor(
    parts: Parts,
    job: Job,
    sandbox: Promise<RunningSandbox>,
    note: (event: EventBody) => void,
    seen: Observations,
    authority: Authority | null,
    changed: (level: BoundaryLevel, config: EffectiveConfig) => void,
    scopes: WritableScopes,
  ) {
    this.#scopes = scopes
    this.#parts = parts
    this.#changed = changed
    this.#job = job
    this.#sandbox = sandbox
    this.#note = note
    this.#seen = seen
    this.#level = job.contract.boundary
    this.#writable = scopeAt(scopes, this.#level)
    this.#told = this.#reach = reachOf({ start: this.#level, grants: [], requests: [] })
    const { id, credentials, proxies } = job
    const { runtime } = parts
    const beforeDenial = (host: string, port: number | null) => this.#questions.beforeDenial(host, port)
    const relays: Pick<RunningSandbox, 'startRelay' | 'stopRelay' | 'tell'> = {
      startRelay: async (...relay) => (await sandbox).startRelay(...relay),
      // One that never came to stand has none.
      stopRelay: async () => (await sandbox.catch(() => null))?.stopRelay(),
      tell: async (...said) => (await sandbox).tell(...said),
    }
    this.#network = new Network({
      id,
      runtime,
      sandbox: relays,
      note,
      credentials,
      authority,
      proxies,
      beforeDenial,
    })
    this.#boundaries = new Boundaries({
      records: parts.store.boundaries,
      userConfigDir: parts.configDir,
      // A child that is to be narrowed with it has a supervisor of its own.
      apply: (of, { by, why }) =>
        of === id ? this.follow(by, why) : speakTo(parts, of, { op: 'boundary', by, why }),
      contractOf: (ancestor) => readContract(parts, ancestor),
      tell: async (_id, event) => note(event),
      onChange: (listener) => parts.store.onChange(listener),
    })
    this.#questions = new Questions({
      job,
      boundaries: this.#boundaries,
      scopes,
      ending: this.#ending.signal,
      note,
      level: () => this.#level,
      state: () => this.#state(),
      config: () => this.#config,
      follow: (by, why) => this.follow(by, why),
    })
    this.#lapsed = new LapsedRequests(() => this.#boundaries.lapsed(id), note)
    // The broker need wait neither for the config nor for the sandbox. Whoever sets it is told why it is not there.
    if (job.contract.level > 0) this.#network.open()
  }

  /** What the records and the config say of it, while the sandbox is still being made. */
  look({ config }: FollowedConfig): StartingBoundary {
    const { contract, id } = this.#job
    this.#config = config
    if (contract.level === 0) return null
    const inherited = this.#boundaries.inherit(id)
    const state = this.#state()
    const held = currentBoundary(state)
    const policy = networkAt(contractHeld(contract, state), this.#level, [], config, false, held)
    // Where nothing gets out, somebody listens for which names are asked for, and wakes when one is.
    const opening = this.#network.set(policy, policy.mode === 'none')
    opening.catch(() => {})
    return {
      changed: inherited ?? state.grants.at(-1) ?? null,
      isBeyond: heldByConfig(state, config, givenByConfig(contract, config)) !== null,
      opening,
    }
  }

  /**
   * Before the agent's first instruction: the network as the contract has it. Somebody listens by then, also where
   * nothing gets out: a connection that is refused for want of a listener is on no record, and no saved yes opens it.
   */
  async start(found: StartingBoundary, followed: FollowedConfig): Promise<void> {
    if (found === null) return
    const { changed, isBeyond, opening } = found
    await opening
    if (changed !== null) await this.follow(changed.by, changed.why)
    followed.listen(() => {
      // A config that cannot be read now changes nothing: what holds goes on holding.
      void this.#reload().catch((error: unknown) => {
        const why = error instanceof Error ? error.message : String(error)
        this.#note({ type: 'Note', text: `config: ${why}` })
      })
    })
    // To who follows the config from here on, what was lowered while it started is no change.
    if (isBeyond) await this.#reload()
  }

  /** The config has changed: what it approves, what it forbids, and the hosts of the level as it is. */
  async #reload(): Promise<void> {
    try {
      await this.#boundaries.reconsider(this.#job.id)
    } catch (error) {
      this.#narrowing.begin()
      throw error
    } finally {
      // Also where files could not be narrowed: hosts wait for nobody who holds one open.
      await this.#inTurn(async () => {
        const state = this.#state()
        await this.#setNetwork(await this.#policyOf(state))
        if (this.#config !== undefined) this.#changed(currentBoundary(state).level, this.#config)
      })
    }
  }

  /** Tries the files alone, so that the record gets no line for each time it was in vain. */
  async #narrowFiles(): Promise<boolean> {
    const level = await this.#boundaries.beyondConfig(this.#job.id)
    if (level === null || this.#ending.signal.aborted) return true
    await this.#inTurn(async () => {
      const { note } = await this.#setFiles(scopeAt(this.#scopes, level))
      if (note !== null) this.#note({ type: 'Note', text: note })
    })
    await this.#reload()
    return true
  }

  async #setFiles(scope: readonly string[] | null): Promise<{ readonly note: string | null }> {
    const before = this.#writable
    // What is denied while a narrowing takes is denied by it.
    if (scope !== null) this.#writable = scope
    try {
      const flip = await (await this.#sandbox).setFiles(scope === null ? 'rw' : 'ro', scope ?? [])
      this.#writable = scope
      return flip
    } catch (error) {
      this.#writable = before
      throw error
    }
  }

  /** What alone of the roots can be written now; null: all of them. */
  get writable(): readonly string[] | null {
    return this.#writable
  }

  #state(): EscalationState {
    return this.#parts.store.boundaries.read(this.#job.id)
  }

  get waitsForPerson(): boolean {
    return this.#questions.isAnyAwaited
  }

  /** Whether somebody answers questions for names by now, be it with a no. */
  get answersNames(): boolean {
    return this.#network.isHeard
  }

  writeDenied(path: string): void {
    this.#questions.writeDenied(path)
  }

  ask(asked: Asked, waiting: Waiting): Promise<Answered> {
    return this.#questions.ask(asked, waiting)
  }

  permit(need: Need, title: string): Promise<{ isGranted: boolean; message: string }> {
    return this.#questions.permit(need, title)
  }

  /** For the agent to see where it stands. */
  show(): Shown {
    const { level, hosts, requests } = this.#boundaries.show(this.#job.id)
    const now = level ?? this.#level
    return {
      level: now,
      files: scopeAt(this.#scopes, now) === null ? 'writable' : 'read-only',
      hosts,
      network: reachShown(this.#network.policy),
      refused: this.#network
        .usage()
        .denied.slice(-mostShown)
        .map(({ host, why }) => ({ host, why })),
      requests: requests.slice(-mostShown).map(({ to, hosts: wished, status, answer }) => ({
        to,
        hosts: wished,
        status,
        message: answer?.message ?? '',
      })),
    }
  }

  /** Makes the sandbox what the records say, one change at a time. */
  follow(by: string, why: string): Promise<void> {
    return this.#inTurn(() => this.#follow(by, why))
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const next = this.#following.catch(() => {}).then(work)
    this.#following = next
    return next
  }

  async #follow(by: string, why: string): Promise<void> {
    const state = this.#state()
    const { level, hosts, taken } = currentBoundary(state)
    const reach = reachOf(state)
    const from = this.#level
    if (level === from && reach === this.#reach) return
    if (this.#reach !== null) this.#policyBefore = this.#network.policy
    // Until it has taken in full nobody knows what holds: the next look starts from nothing.
    this.#reach = null
    const policy = await this.#policyOf(state)
    const [before, scope] = [scopeAt(this.#scopes, from), scopeAt(this.#scopes, level)]
    const isWider = boundaryRank(level) > boundaryRank(from)
    let choice: string | null = null
    // What is taken away goes first, what is given comes last.
    if (!isWider) await this.#setNetwork(policy)
    if (!isDeepStrictEqual(scope, before)) {
      const { note } = await this.#setFiles(scope).catch((error: unknown) => {
        const what = error instanceof Error ? error.message : String(error)
        this.#note({ type: 'BoundaryKept', level: from, wished: level, by, why: what })
        throw error
      })
      choice = note
      if (note !== null) this.#note({ type: 'Note', text: note })
    }
    if (isWider) await this.#setNetwork(policy)
    this.#level = level
    this.#reach = reach
    // Nothing is otherwise than before the wish that did not take, which is on record.
    const isBack =
      level === from && state.grants.at(-1)?.way === 'undone' && isDeepStrictEqual(policy, this.#policyBefore)
    if (!isBack && (level !== from || reach !== this.#told)) {
      const gone = taken.length === 0 ? {} : { taken: stillTaken(currentBoundary(state)) }
      // What became of files that were open is part of why the boundary is what it is.
      const story = [why, choice ?? ''].filter(Boolean).join('; ')
      this.#note({ type: 'BoundaryEscalated', from, to: level, by, why: story, hosts: [...hosts], ...gone })
    }
    this.#told = reach
    if (this.#config !== undefined) this.#changed(level, this.#config)
    this.#parts.store.dispatches.setBoundary(this.#job.id, level)
  }

  async #policyOf(state: EscalationState): Promise<NetworkPolicy> {
    const { contract } = this.#job
    const places = configPlaces(this.#parts.configDir, contract)
    const config = await loadConfig(places).catch(async (error: unknown) => {
      // An agent that writes real files could spoil one, and so keep what is to be taken from it: the last that
      // could be read goes on holding, below the user's own maximum as it is now. (escape: unreadable-config)
      if (this.#config === undefined) throw error
      const own = await loadConfig({ ...places, roots: [], around: [] }).catch(() => this.#config)
      return withMaximum(this.#config, own?.sandboxMaximumBoundary ?? 'full')
    })
    this.#config = config
    return networkNow(contract, state, config)
  }

  async #setNetwork(policy: NetworkPolicy): Promise<void> {
    if (this.#job.contract.level > 0) await this.#network.set(policy)
  }

  /** What an agent that has ended said as its last act still gets out. */
  drain(enough: AbortSignal): Promise<void> {
    return this.#network.drain(enough)
  }

  /** A yes that fell into the end stands among the grants, and nothing came of it. */
  #tellUnfollowed(): void {
    const state = this.#state()
    if (
      this.#reach === null ||
      (currentBoundary(state).level === this.#level && reachOf(state) === this.#reach)
    )
      return
    this.#note({ type: 'Note', text: 'the boundary was changed when the agent had ended: it took no effect' })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort()
    this.#lapsed[Symbol.dispose]()
    this.#narrowing[Symbol.dispose]()
    // Records that cannot be read now keep nothing from ending.
    await this.#following.then(() => this.#tellUnfollowed()).catch(() => {})
    this.#seen.network = this.#network.usage()
    await this.#network[Symbol.asyncDispose]()
  }
}
