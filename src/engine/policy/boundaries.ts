import { randomBytes } from 'node:crypto'
import { boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import type { ListedApproval } from '../../shared/config.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { BoundaryGrant, BoundaryRequest, BoundaryState, TaskApproval } from '../../shared/escalation.ts'
import type { EventBody } from '../../shared/events.ts'
import type { DispatchId } from '../../shared/ids.ts'
import type { EscalationState } from '../base/escalation.ts'
import { realFolder } from '../base/paths.ts'
import { coversRoot } from './approvals.ts'
import type { EscalationContext } from './context.ts'
import { coveredFolders, refuseEnded } from './approving.ts'
import { holdFiles, revokeApproval, saveApprovals } from './config/edit.ts'
import { loadConfig } from './config/load.ts'
import { narrowerBoundary } from './config/narrow.ts'
import { Contexts, type ContextParts } from './contexts.ts'
import {
  approveRequests,
  denyRequests,
  inheritNarrowing,
  narrowBoundary,
  undoGrant,
  type Answering,
  type Approving,
  type Narrowing,
} from './answers.ts'
import { keptNoMore, stepsDown, tellKept } from './kept.ts'
import { heldByConfig } from './heldByConfig.ts'
import { wishOfDenial, type Denial } from './denial.ts'
import { normalised } from './normalised.ts'
import { approveStanding, fileRequest, type Asking } from './escalation.ts'
import { current, isShut, settle, type EscalationEffect, type Held, type Step } from './step.ts'
import { stillTaken } from './taken.ts'

export type LiveChange = {
  readonly to: BoundaryLevel
  readonly hosts: readonly string[]
  readonly by: string
  readonly why: string
}

export type BoundaryParts = ContextParts & {
  /** Makes the running sandbox follow the records; fails where nobody supervises it any more. */
  readonly apply: (id: DispatchId, change: LiveChange) => Promise<void>
  /** Puts an event into the dispatch's log; fails where nobody keeps it any more. */
  readonly tell: (id: DispatchId, event: EventBody) => Promise<void>
  /** Says that something about a dispatch changed, in any process. */
  readonly onChange?: (listener: (ids: readonly string[]) => void) => () => void
  readonly now?: () => Date
}

type Decided<T> = Step<T> & {
  readonly before: Held
  /** Those that were open, and had their yes by it, or were closed. */
  readonly settled: readonly BoundaryRequest[]
  /** Approvals for the task that came with it. */
  readonly forTask: readonly string[]
}

type HoldingConfig = Pick<EscalationContext, 'config' | 'given'>

const isOpen = ({ status }: BoundaryRequest): boolean => status === 'open'

/** The same denial again within this time is not even looked at: a retry loop must not become a load. */
const denialQuietMs = 2_000

/**
 * The one pipeline of escalation: request → saved approval → policy → person → live change → event. What is
 * decided is on record before it takes effect, so that a crash leaves less than was allowed, never more.
 */
export class Boundaries {
  readonly #parts: BoundaryParts
  readonly #contexts: Contexts
  readonly #quiet = new Map<string, number>()

  constructor(parts: BoundaryParts) {
    this.#parts = parts
    this.#contexts = new Contexts(parts)
  }

  /** Files a request. The answer may be in it already: a saved approval, the policy, an earlier denial. */
  async request(id: DispatchId, asking: Omit<Asking, 'id'>): Promise<BoundaryRequest> {
    const context = await this.#context(id).catch((error: unknown) => {
      // Who asks himself is told what is wrong with the file; of an agent's wish he would not hear otherwise.
      const isUnreadable = error instanceof OrangeryError && error.kind === 'input'
      if (asking.source === 'user' || !isUnreadable) throw error
      return this.#contexts.ofUnreadable(id, this.#now())
    })
    const wish = { ...asking, id: randomBytes(4).toString('hex') }
    const step = this.#change(id, (state) => fileRequest(state, wish, context))
    await this.#carryOut(id, step, [step.result])
    return step.result
  }

  /** What the broker or the driver saw. Null where it says nothing new, or too much at once. */
  async denied(id: DispatchId, denial: Denial): Promise<BoundaryRequest | null> {
    const key = `${id} ${JSON.stringify(denial)}`
    const at = this.#now().getTime()
    // Either way: a clock that is set back must not keep denials quiet until it has caught up.
    if (Math.abs(at - (this.#quiet.get(key) ?? -denialQuietMs)) < denialQuietMs) return null
    if (this.#quiet.size > 1_000) this.#quiet.clear()
    this.#quiet.set(key, at)
    try {
      const state = this.#parts.records.read(id)
      const now = current(state)
      const { level } = now
      const wish = wishOfDenial(level, denial, stillTaken(now))
      if (wish.hosts.length === 0 && wish.to === level) return null
      return await this.request(id, { ...wish, by: wish.source })
    } catch (error) {
      // A flood is the agent's doing, an ended dispatch nobody's fault, and beyond its parent nobody can help it.
      if (
        error instanceof OrangeryError &&
        (error.kind === 'busy' || error.code === 'boundary.beyond_parent')
      )
        return null
      throw error
    }
  }

  async approve(id: DispatchId, given: Approving): Promise<readonly BoundaryRequest[]> {
    refuseEnded(given, this.#now())
    const context = await this.#context(id)
    const answering = { ...given, covers: await coveredFolders(given, context.roots) }
    const { scope } = given
    const { userConfigDir, records } = this.#parts
    const { roots } = records.read(id)
    await using files =
      scope === 'project' || scope === 'user' ? await holdFiles({ userConfigDir, scope, roots }) : null
    const step = this.#change(id, (state) => approveRequests(state, answering, context))
    await this.#carryOut(id, step, step.result, files)
    return step.result
  }

  async deny(id: DispatchId, answering: Answering): Promise<readonly BoundaryRequest[]> {
    const step = this.#change(id, (state) => denyRequests(state, answering, { at: this.#now() }))
    await this.#carryOut(id, step, [])
    return step.result
  }

  async narrow(id: DispatchId, narrowing: Narrowing): Promise<BoundaryGrant> {
    normalised(narrowing.hosts ?? [])
    const { records } = this.#parts
    // Children first: a parent that is narrowed must not go on through them.
    const first = records.descendants(id)
    const failures = await this.#narrowAll(first, id, narrowing)
    const grant = await this.#narrowOne(id, narrowing)
    // One that came meanwhile may have looked at its parent before; one that is yet to come looks now.
    const later = records.descendants(id).filter((child) => !first.includes(child))
    failures.push(...(await this.#narrowAll(later, id, narrowing)))
    if (failures.length > 0) throw failures[0]
    return grant
  }

  /** Before a child's first instruction: what its parent was deprived of meanwhile is out of its reach as well. */
  inherit(id: DispatchId): BoundaryGrant | null {
    const { records } = this.#parts
    // Most have nothing to inherit, and need not wait for whoever writes. What is taken from now on finds the child.
    if (inheritNarrowing(records.read(id), this.#now()).result === null) return null
    return records.change(id, (state) => inheritNarrowing(state, this.#now()))
  }

  async #narrowAll(
    children: readonly DispatchId[],
    id: DispatchId,
    { to, ...rest }: Narrowing,
  ): Promise<OrangeryError[]> {
    const failures: OrangeryError[] = []
    const isOfHosts = (rest.hosts ?? []).length > 0
    for (const child of children) {
      const state = this.#parts.records.read(child)
      const { level, hosts } = current(state)
      // One at its level or below may still have what its contract opens over read-only files.
      const isClosed = isShut(state) || to === undefined || boundaryRank(to) >= boundaryRank('network')
      const isNarrower = isClosed && (to === undefined || boundaryRank(level) <= boundaryRank(to))
      if (!isOfHosts && isNarrower && hosts.length === 0) continue
      const why = `its parent ${id} was narrowed${rest.why === '' ? '' : `: ${rest.why}`}`
      try {
        await this.#narrowOne(child, { ...rest, to: narrowerBoundary(level, to ?? level), why })
      } catch (error) {
        // One that has just ended has nothing left to take.
        if (!this.#parts.records.read(child).running) continue
        const reason = error instanceof Error ? error.message : String(error)
        failures.push(
          new OrangeryError('boundary.child_not_narrowed', `its child ${child} was not narrowed: ${reason}`, {
            kind: 'busy',
            hint: 'Try again, or end the child with `orangery dispatch kill`.',
          }),
        )
      }
    }
    return failures
  }

  async #narrowOne(id: DispatchId, narrowing: Narrowing): Promise<BoundaryGrant> {
    const step = this.#change(id, (state) => narrowBoundary(state, narrowing, { at: this.#now() }))
    await this.#carryOut(id, step, [])
    return step.result
  }

  /** After a config changed: nothing may stay wider than it allows, and what it now approves need not wait. */
  async reconsider(id: DispatchId): Promise<void> {
    const context = await this.#context(id).catch(async (error: unknown) => {
      // A file that the agent may have spoilt does not keep the user's own maximum from holding.
      const own = await this.#contexts.ownConfig(id, this.#now())
      await this.#holdTo(id, { config: own })
      throw error
    })
    await this.#holdTo(id, context)
    if (!this.#parts.records.read(id).running) return
    const step = this.#change(id, (latest) => approveStanding(latest, context))
    await this.#carryOut(id, step, step.result)
  }

  async #holdTo(id: DispatchId, { config, given = null }: HoldingConfig): Promise<void> {
    const state = this.#parts.records.read(id)
    const over = heldByConfig(state, config, given)
    if (!state.running) return
    const ofConfig = { by: 'config', way: 'config' } as const
    try {
      const steps = over === null ? [] : stepsDown(current(state), over.to)
      for (const to of steps) await this.#narrowOne(id, { why: '', ...over, ...ofConfig, to })
    } catch (error) {
      const kept = `${over?.why}: ${error instanceof Error ? error.message : String(error)}`
      const asking = { id: randomBytes(4).toString('hex'), why: kept, at: this.#now() }
      const told = this.#change(id, (latest) => tellKept(latest, asking))
      await this.#carryOut(id, told, [])
      throw error
    }
    // Theirs go: a parent may have had them by its level alone.
    if (over !== null) await this.#holdChildren(id, { ...over, ...ofConfig, keepsHosts: false })
    if (keptNoMore(state) !== state)
      this.#parts.records.change(id, (latest) => ({ state: keptNoMore(latest), result: null }))
  }

  /** A child may stand in a project of its own, whose config says nothing of this. */
  async #holdChildren(id: DispatchId, narrowing: Narrowing): Promise<void> {
    const failures = await this.#narrowAll(this.#parts.records.descendants(id), id, narrowing)
    if (failures.length > 0) throw failures[0]
  }

  /** The level that the config holds it to and that it has not come down to; null: there is none. */
  async beyondConfig(id: DispatchId): Promise<BoundaryLevel | null> {
    const { config, given = null } = await this.#context(id)
    const state = this.#parts.records.read(id)
    return state.running ? (heldByConfig(state, config, given)?.to ?? null) : null
  }

  async reconsiderAll(): Promise<void> {
    const failures: unknown[] = []
    // One whose config cannot be read keeps none of the others from following theirs.
    for (const id of this.#parts.records.unfinished()) {
      await this.reconsider(id).catch((error: unknown) => failures.push(error))
    }
    if (failures.length > 0) throw failures[0]
  }

  show(id: DispatchId): Omit<BoundaryState, 'enforced'> {
    const state = settle(this.#parts.records.read(id), this.#now())
    const now = current(state)
    return {
      id,
      level: now.level,
      hosts: [...now.hosts],
      taken: stillTaken(now),
      running: state.running,
      history: [...state.grants],
      requests: [...state.requests],
    }
  }

  /** Its requests, and puts on record which of them nobody answered in time: once it has ended that cannot be told. */
  lapsed(id: DispatchId): readonly BoundaryRequest[] {
    const at = this.#now()
    const { running, requests } = this.#parts.records.read(id)
    const isOver = ({ status, expires_at: end }: BoundaryRequest) => status === 'open' && new Date(end) <= at
    if (running && requests.some(isOver))
      this.#parts.records.change(id, (state) => ({ state: settle(state, at), result: null }))
    return this.show(id).requests
  }

  /** Every request that waits for a person, over all dispatches. */
  inbox(): readonly BoundaryRequest[] {
    const at = this.#now()
    return this.#parts.records.openRequests().filter((request) => new Date(request.expires_at) > at)
  }

  /** Waits until a request is answered, expires, or the dispatch ends. */
  async waitFor(id: DispatchId, request: string, signal?: AbortSignal): Promise<BoundaryRequest> {
    for (;;) {
      const found = this.show(id).requests.find((known) => known.id === request)
      if (found === undefined) {
        throw new OrangeryError('boundary.no_request', `request ${request}: dispatch ${id} has none`, {
          kind: 'not_found',
        })
      }
      if (found.status !== 'open' || signal?.aborted === true) return found
      await this.#nextChange(id, signal)
    }
  }

  async approvals(roots: readonly string[]): Promise<{
    readonly saved: readonly ListedApproval[]
    readonly tasks: readonly TaskApproval[]
  }> {
    const config = await loadConfig({ userConfigDir: this.#parts.userConfigDir, roots }, this.#now())
    const real = roots.map(realFolder)
    const saved = config.sandboxApprovedEscalations.map((approval) => ({
      ...approval,
      here: approval.covers === null || real.some((root) => coversRoot(approval, root)),
    }))
    return { saved, tasks: this.#parts.records.taskApprovals() }
  }

  /** Takes back an approval, saved or of a task. A running agent keeps what it has until it is narrowed. */
  async revoke(approval: string, roots: readonly string[]): Promise<readonly string[]> {
    const { records, userConfigDir } = this.#parts
    const ofTasks = records.taskApprovals().filter(({ revoked_at: revoked }) => revoked === null)
    const known = ofTasks.map(({ id }) => id)
    const removed = await revokeApproval(userConfigDir, roots, approval, known)
    const places = removed.map(({ file, line }) => `${file}:${line}`)
    const task = known.find((id) => id === approval) ?? known.find((id) => id.startsWith(approval))
    const at = this.#now().toISOString()
    if (places.length === 0 && task !== undefined && records.revokeTaskApproval(task, at)) places.push('task')
    if (places.length > 0) return places
    throw new OrangeryError('boundary.no_approval', `approval ${approval}: there is none`, {
      kind: 'not_found',
      hint: 'See `orangery boundary approvals list`.',
    })
  }

  #now(): Date {
    return this.#parts.now?.() ?? new Date()
  }

  #context(id: DispatchId): Promise<EscalationContext> {
    return this.#contexts.of(id, this.#now())
  }

  #change<T>(id: DispatchId, change: (state: EscalationState) => Step<T>): Decided<T> {
    return this.#parts.records.change(id, (state) => {
      const step = change(state)
      const wasOpen = new Set(state.requests.filter(isOpen).map((request) => request.id))
      const settled = step.state.requests.filter(
        ({ id: of, status }) => (status === 'approved' || status === 'closed') && wasOpen.has(of),
      )
      const forTask = step.state.taskApprovals
        .slice(state.taskApprovals.length)
        .map((approval) => approval.id)
      return { state: step.state, result: { ...step, before: current(state), settled, forTask } }
    })
  }

  async #carryOut(
    id: DispatchId,
    decided: Decided<unknown>,
    requests: readonly BoundaryRequest[],
    files: AsyncDisposable | null = null,
  ): Promise<void> {
    let takeBack = async () => {}
    try {
      for (const effect of decided.effects) {
        if (effect.kind !== 'save') await this.#effect(id, effect)
        else takeBack = await this.#save(id, effect)
        // Who follows reads them, and may have to write.
        if (effect.kind === 'save') await files?.[Symbol.asyncDispose]()
      }
    } catch (error) {
      const code = error instanceof OrangeryError ? error.code : null
      // It ended before it could say that the change took: nothing is left to take back, and the yes was one.
      if (code === 'dispatch.not_running' || code === 'sandbox.ended') return
      const why = error instanceof Error ? error.message : String(error)
      const { before, state: decidedState, settled, forTask } = decided
      // The question is open again: were it denied now, what is saved would go on saying yes.
      await takeBack().catch(() => {})
      const answered = new Map([...settled, ...requests].map((request) => [request.id, request]))
      this.#parts.records.change(id, (state) => ({
        state: undoGrant(state, [...answered.values()], {
          before,
          grants: decidedState.grants.length,
          forTask,
          why,
          at: this.#now(),
        }),
        result: null,
      }))
      // Part of it may have taken: let the sandbox follow the record once more. A supervisor that is silent will
      // read the record when it goes on.
      const back = { to: before.level, hosts: before.hosts, by: 'supervisor', why }
      if (code !== 'dispatch.silent') await this.#parts.apply(id, back).catch(() => {})
      throw error
    }
  }

  async #effect(id: DispatchId, effect: Exclude<EscalationEffect, { kind: 'save' }>): Promise<void> {
    if (effect.kind === 'tell') await this.#parts.tell(id, effect.event).catch(() => {})
    else await this.#parts.apply(id, effect)
  }

  /** Gives the way back. */
  async #save(
    id: DispatchId,
    { scope, approvals, by }: Extract<EscalationEffect, { kind: 'save' }>,
  ): Promise<() => Promise<void>> {
    const { records, userConfigDir } = this.#parts
    const { roots } = records.read(id)
    const request = { userConfigDir, scope, approvals, roots, by, at: this.#now(), isHeld: true }
    return (await saveApprovals(request)).takeBack
  }

  /** The next change of the dispatch; at the latest after a second, for expiry and lost signals. */
  #nextChange(id: DispatchId, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer)
        stop?.()
        signal?.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, 1_000)
      const stop = this.#parts.onChange?.((ids) => {
        if (ids.includes(id)) done()
      })
      signal?.addEventListener('abort', done, { once: true })
    })
  }
}
