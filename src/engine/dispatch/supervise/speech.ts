import { setTimeout as sleep } from 'node:timers/promises'
import type { EventBody } from '../../../shared/events.ts'
import { AcpConversation, ProtocolReader, protocolReader } from '../../agents/index.ts'
import { doorPath } from '../../base/sandbox.ts'
import type { Guards } from '../../policy/index.ts'
import type { AgentIo, Sink } from './agentIo.ts'
import type { Job } from '../prepare/job.ts'
import type { LiveBoundary } from '../boundary/liveBoundary.ts'
import type { Verdict } from './outcome.ts'
import type { Note } from '../record/recorder.ts'
import { version } from '../version.ts'

/** What an agent says of its doing, and what we say to it, where it speaks a protocol. */
export interface Speech extends Disposable {
  /** A piece of what it printed. */
  read(chunk: Uint8Array): void
  /** It runs and can be spoken to. */
  begin(): void
  /** It has ended: what became of its work, given what its end alone tells. */
  judged(verdict: Verdict): Promise<Verdict>
}

export type Surroundings = {
  readonly io: AgentIo
  /** As the agent sees it. */
  readonly cwd: string
  readonly canAsk: boolean
  readonly said: Note
  readonly guards: Pick<Guards, 'refusal'>
  readonly boundary: Pick<LiveBoundary, 'permit'>
  readonly kill: () => Promise<void>
  readonly sink: Sink | undefined
  /** How long an agent may take to leave after its work is done and its input has ended. */
  readonly leavingMs?: number
}

/** Whether an agent is spoken to in messages: then it has pipes, and nobody types into them. */
export const isSpokenTo = ({ card }: Pick<Job, 'card'>): boolean => card.protocol === 'acp'

export function speechOf(job: Job, around: Surroundings): Speech {
  return isSpokenTo(job) ? new Conversation(job, around) : new Monologue(job, around.said)
}

class Monologue implements Speech {
  readonly #reader: ProtocolReader | null
  readonly #said: Note

  constructor({ card }: Job, said: Note) {
    this.#reader = protocolReader(card)
    this.#said = said
  }

  read(chunk: Uint8Array): void {
    for (const event of this.#reader?.read(chunk) ?? []) this.#said(event)
  }

  begin(): void {}

  judged(verdict: Verdict): Promise<Verdict> {
    return Promise.resolve(verdict)
  }

  [Symbol.dispose](): void {}
}

/** A message may carry a whole file; one longer than this is not waited for. */
const longestMessage = 16 * 1024 * 1024
const usualLeavingMs = 5_000

class Conversation implements Speech {
  readonly #around: Surroundings
  readonly #talk: AcpConversation
  readonly #reader: ProtocolReader
  readonly #left = new AbortController()
  #leading: Promise<string | null> | undefined
  #isSentAway = false

  constructor(job: Job, around: Surroundings) {
    this.#around = around
    this.#talk = new AcpConversation({
      version,
      prompt: job.prompt ?? '',
      systemPrompt: job.systemPrompt,
      cwd: around.cwd,
      mcpServers: around.canAsk
        ? [{ name: 'orangery', command: `${doorPath}/bin/orangery-ask`, args: ['mcp'] }]
        : [],
      send: (line) => around.io.write(`${line}\n`),
      said: (event) => this.#said(event),
      refusal: (call) => around.guards.refusal(call),
      permit: (need, title) => around.boundary.permit(need, title),
    })
    const receive = (line: string) => {
      this.#talk.receive(line)
      return []
    }
    this.#reader = new ProtocolReader(receive, longestMessage, () =>
      this.#talk.end(`a message was longer than ${longestMessage} bytes`),
    )
  }

  read(chunk: Uint8Array): void {
    this.#reader.read(chunk)
  }

  begin(): void {
    this.#leading = this.#talk.lead()
    void this.#leading.then(() => this.#partWays())
  }

  async judged(verdict: Verdict): Promise<Verdict> {
    this.#left.abort()
    this.#talk.end('the agent ended before its work was done')
    const why = (await this.#leading) ?? null
    if (verdict.status !== 'completed' && verdict.status !== 'failed') return verdict
    if (why === null) return { status: 'completed', error: null }
    // How it ended says why, unless that was our doing.
    return { status: 'failed', error: (this.#isSentAway ? null : verdict.error) ?? `acp: ${why}` }
  }

  [Symbol.dispose](): void {
    this.#left.abort()
    this.#talk[Symbol.dispose]()
  }

  #said(event: EventBody): void {
    this.#around.said(event)
    // Whoever runs it in the foreground reads what it says, not how it says it.
    if (event.type === 'AgentMessage' && event.role === 'agent')
      void this.#around.sink?.(Buffer.from(`${event.text}\n`), 'stdout')
  }

  /** Its work is over: agents leave when their input ends, and those that stay are ended. */
  async #partWays(): Promise<void> {
    const { io, kill, leavingMs = usualLeavingMs } = this.#around
    io.endInput()
    const stays = await sleep(leavingMs, true, { signal: this.#left.signal }).catch(() => false)
    if (!stays) return
    this.#isSentAway = true
    await kill()
  }
}
