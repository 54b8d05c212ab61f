import type { BoundaryLevel } from '../../../shared/boundary.ts'
import type { BoundaryRequest } from '../../../shared/escalation.ts'
import type { EventBody } from '../../../shared/events.ts'
import { PerMinute } from '../../../shared/perMinute.ts'
import type { WritableScopes } from '../../base/contract.ts'
import type { EscalationState, Need } from '../../base/escalation.ts'
import { plainReason, type Answered, type Asked, type Waiting } from '../../door/index.ts'
import { cannotAsk, findOwnPlace, outsideSandbox, refuseOwnPlaces } from '../../egress/index.ts'
import {
  currentBoundary,
  levelForWriting,
  networkNow,
  wishOfNeed,
  type Boundaries,
  type EffectiveConfig,
} from '../../policy/index.ts'
import type { Job } from '../prepare/job.ts'
import { answerInWords, longestReason, nobodyAnswered, wordsOfDenial } from './answerWords.ts'

const mostPermits = 30
/** Longer than any request lasts: who waits through a protocol waits until it is answered or expires. */
const longestWaitMs = 3_600_000

type QuestionParts = {
  readonly job: Pick<Job, 'id' | 'card' | 'contract'>
  readonly boundaries: Boundaries
  /** What can be written at which level, as the agent sees it. */
  readonly scopes: WritableScopes
  /** Aborted when the agent has ended: nobody waits on. */
  readonly ending: AbortSignal
  readonly note: (event: EventBody) => void
  readonly level: () => BoundaryLevel
  readonly state: () => EscalationState
  /** As it was read last; undefined before the first time. */
  readonly config: () => EffectiveConfig | undefined
  /** Has the sandbox become what the records say. */
  readonly follow: (by: string, why: string) => Promise<void>
}

/** What a running agent asks for and is denied, put to whoever may answer. */
export class Questions {
  readonly #parts: QuestionParts
  readonly #permits = new PerMinute(mostPermits)
  readonly #asking = new Map<string, Promise<string | null>>()
  #waiting = 0
  #filing: Promise<unknown> = Promise.resolve()

  constructor(parts: QuestionParts) {
    this.#parts = parts
  }

  /**
   * Whether something inside waits for a person's answer, be it a connection that is held. Who was refused at once, or
   * asked without waiting, goes on and has to give signs: an open request alone excuses nobody.
   */
  get isAnyAwaited(): boolean {
    return this.#waiting > 0
  }

  /** A write that the driver saw denied. What a program prints about one is never heard here. */
  writeDenied(path: string): void {
    const { job, boundaries, scopes, level } = this.#parts
    // One after the other: who overtakes the first would give its request his own name.
    this.#filing = this.#filing
      .then(() => {
        const to = levelForWriting(scopes, level(), [path])
        return boundaries.denied(job.id, { kind: 'write', path, to })
      })
      .catch((error: unknown) => this.#cannotAsk(error))
  }

  /** A question from inside the sandbox. The answer is for the agent to read. */
  async ask(asked: Asked, waiting: Waiting): Promise<Answered> {
    refuseOwnPlaces(asked.hosts, this.#parts.job.contract.outputs.pins)
    return answerInWords(asked, await this.#file(asked, waiting))
  }

  /**
   * What an agent asks leave for through its protocol, and waits for. Where its boundary allows it as it is, nobody
   * is asked: the sandbox holds, and what is written waits for review.
   */
  async permit(wanted: Need, title: string): Promise<{ isGranted: boolean; message: string }> {
    const { contract } = this.#parts.job
    const config = this.#parts.config()
    // At level 0 nothing stands in its way, and so there is nothing to ask for.
    if (contract.level === 0 || config === undefined) return { isGranted: true, message: '' }
    const need = wanted.kind === 'reach' ? { ...wanted, hosts: outsideSandbox(wanted.hosts) } : wanted
    const own = need.kind === 'reach' ? findOwnPlace(need.hosts, contract.outputs.pins) : null
    if (own !== null) return { isGranted: false, message: cannotAsk(own) }
    const state = this.#parts.state()
    const network = networkNow(contract, state, config)
    const now = { level: currentBoundary(state).level, network, scopes: this.#parts.scopes }
    const wish = wishOfNeed(need, now)
    if (wish === null) return { isGranted: true, message: '' }
    // A question that was answered before is answered again, and each is a write to the records.
    if (!this.#permits.take()) return { isGranted: false, message: 'too many questions: wait a minute' }
    const reason = plainReason(title).slice(0, longestReason)
    const asked = { ...wish, reason, waitMs: longestWaitMs }
    const waiting = { signal: this.#parts.ending, began: () => {} }
    const { status, answer } = await this.#file(asked, waiting)
    const isOver = status !== 'approved' && status !== 'denied'
    return { isGranted: status === 'approved', message: answer?.message ?? (isOver ? nobodyAnswered : '') }
  }

  async #file({ to, hosts, reason, waitMs }: Asked, waiting: Waiting): Promise<BoundaryRequest> {
    const { id, card } = this.#parts.job
    const why = reason === '' ? 'it gave no reason' : reason
    const wish = { to, hosts, source: 'agent', by: card.id, why } as const
    const filed = await this.#parts.boundaries.request(id, wish)
    const waits = filed.status === 'open' && waitMs > 0
    if (waits) waiting.began()
    return waits ? this.#answerTo(filed.id, waitMs, waiting.signal) : filed
  }

  /** The broker holds the connection meanwhile: a saved approval opens it, a person may, if the config gives time. */
  beforeDenial(host: string, port: number | null): Promise<string | null> {
    const key = `${host}:${port}`
    const known = this.#asking.get(key)
    if (known !== undefined) return known
    const asking = this.#hostDenied(host, port).finally(() => this.#asking.delete(key))
    this.#asking.set(key, asking)
    return asking
  }

  async #hostDenied(host: string, port: number | null): Promise<string | null> {
    const { job, boundaries, config } = this.#parts
    try {
      const request = await boundaries.denied(job.id, { kind: 'host', host, port })
      const seconds = config()?.sandboxEscalationWait ?? 0
      if (request?.status !== 'open' || seconds === 0) return wordsOfDenial(request)
      return wordsOfDenial(await this.#answerTo(request.id, seconds * 1000))
    } catch (error) {
      this.#cannotAsk(error)
      return null
    }
  }

  #cannotAsk(error: unknown): void {
    const why = error instanceof Error ? error.message : String(error)
    this.#parts.note({ type: 'Note', text: `boundary: ${why}` })
  }

  /** Waits for a person. Once it is a yes, it has taken effect. */
  async #answerTo(request: string, ms: number, enough?: AbortSignal): Promise<BoundaryRequest> {
    const { job, boundaries, ending, follow } = this.#parts
    const ends = [AbortSignal.timeout(ms), ending, ...(enough === undefined ? [] : [enough])]
    const signal = AbortSignal.any(ends)
    this.#waiting++
    const answered = await boundaries.waitFor(job.id, request, signal).finally(() => this.#waiting--)
    // Whoever approved also tells us to look, but who waits here need not wait for that.
    if (answered.status === 'approved') await follow(answered.answer?.by ?? '', answered.why)
    return answered
  }
}
