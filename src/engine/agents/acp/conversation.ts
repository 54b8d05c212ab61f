import type { EventBody } from '../../../shared/events.ts'
import type { Need } from '../../base/escalation.ts'
import { short } from '../shorten.ts'
import {
  initializedSchema,
  outcomeOf,
  permissionSchema,
  promptedSchema,
  protocolVersion,
  sessionSchema,
  updateSchema,
} from './messages.ts'
import { needOf } from './needs.ts'
import { RpcError, RpcPeer, rpcCodes } from './peer.ts'
import { AcpUpdates, type ToolCallEvent } from './updates.ts'

export type Decision = { readonly isGranted: boolean; readonly message: string }

export type AcpSurroundings = {
  readonly version: string
  readonly prompt: string
  readonly systemPrompt: string | null
  /** As the agent sees it. */
  readonly cwd: string
  /** A program the agent may start as an MCP server, with the name it is known by. */
  readonly mcpServers: readonly {
    readonly name: string
    readonly command: string
    readonly args: readonly string[]
  }[]
  readonly send: (line: string) => void
  readonly said: (event: EventBody) => void
  /** Why a call is out of the question, whatever the boundary; null where it is not. */
  readonly refusal: (call: ToolCallEvent) => string | null
  readonly permit: (need: Need, title: string) => Promise<Decision>
}

/** An agent may load much before it speaks; one that speaks another language never will. */
const startPatienceMs = 120_000
/** Beyond this many denials an agent has been told often enough. */
const mostTold = 20

/**
 * Leads one task through an agent that speaks the Agent Client Protocol: the prompt goes in, what it does comes out
 * as events, and what it asks leave for is decided where every other request is.
 */
export class AcpConversation implements Disposable {
  readonly #around: AcpSurroundings
  readonly #peer: RpcPeer
  readonly #updates = new AcpUpdates()
  /** What a person said to a request that was denied. The protocol's answer has no place for it. */
  readonly #unsaid: string[] = []
  readonly #told = new Set<string>()

  constructor(around: AcpSurroundings) {
    this.#around = around
    this.#peer = new RpcPeer({
      send: around.send,
      request: (method, params) => this.#answer(method, params),
      notified: (method, params) => this.#hear(method, params),
    })
  }

  receive(line: string): void {
    this.#peer.receive(line)
  }

  /** The agent is gone, or cannot be understood any more. */
  end(why: string): void {
    this.#peer.end(why)
  }

  /** From the first word to the end of the last turn. Gives why it ended early; null where the work was done. */
  async lead(): Promise<string | null> {
    try {
      const session = await this.#open()
      const { prompt, systemPrompt } = this.#around
      let reason = await this.#turn(session, systemPrompt === null ? [prompt] : [systemPrompt, prompt])
      // As a person at an editor would: no, and then what to do instead.
      while (this.#unsaid.length > 0) reason = await this.#turn(session, this.#unsaid.splice(0))
      return reason === 'end_turn' ? null : `the agent stopped: ${reason}`
    } catch (error) {
      return error instanceof Error ? error.message : String(error)
    }
  }

  [Symbol.dispose](): void {
    this.#peer[Symbol.dispose]()
  }

  async #open(): Promise<string> {
    const { version, cwd, mcpServers } = this.#around
    const hello = {
      protocolVersion,
      clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
      clientInfo: { name: 'orangery', title: 'Orangery', version },
    }
    const greeting = initializedSchema.safeParse(await this.#peer.call('initialize', hello, startPatienceMs))
    if (greeting.data?.protocolVersion !== protocolVersion)
      throw new Error(`initialize: the agent does not speak version ${protocolVersion} of the protocol`)
    const wish = { cwd, mcpServers: mcpServers.map((server) => ({ ...server, env: [] })) }
    const session = sessionSchema.safeParse(await this.#peer.call('session/new', wish, startPatienceMs))
    if (!session.success) throw new Error('session/new: the answer names no session')
    return session.data.sessionId
  }

  async #turn(sessionId: string, texts: readonly string[]): Promise<string> {
    const prompt = texts.map((text) => ({ type: 'text', text }))
    for (const text of texts) this.#around.said({ type: 'AgentMessage', role: 'user', text: short(text) })
    const ended = promptedSchema.safeParse(await this.#peer.call('session/prompt', { sessionId, prompt }))
    for (const event of this.#updates.flush()) this.#around.said(event)
    return ended.data?.stopReason ?? 'it gave no reason'
  }

  #hear(method: string, params: unknown): void {
    const update = method === 'session/update' ? updateSchema.safeParse(params) : null
    // Kinds of updates that we do not know say nothing that is decided here.
    if (update?.success !== true) return
    for (const event of this.#updates.read(update.data.update)) this.#around.said(event)
  }

  async #answer(method: string, params: unknown): Promise<unknown> {
    if (method !== 'session/request_permission')
      throw new RpcError(rpcCodes.method, `${method}: there is no such method`)
    const asked = permissionSchema.safeParse(params)
    if (!asked.success) throw new RpcError(rpcCodes.params, 'not a request for permission')
    const { toolCall, options } = asked.data
    const call = this.#updates.eventOf(toolCall)
    for (const event of [...this.#updates.flush(), ...this.#updates.call(toolCall)]) this.#around.said(event)
    const { isGranted, message } = await this.#decide(call, needOf(toolCall))
    if (!isGranted) this.#tell(call.title, message)
    return { outcome: outcomeOf(options, isGranted), _meta: { orangery: { message } } }
  }

  async #decide(call: ToolCallEvent, need: Need): Promise<Decision> {
    const refusal = this.#around.refusal(call)
    if (refusal !== null) return { isGranted: false, message: refusal }
    try {
      return await this.#around.permit(need, call.title)
    } catch (error) {
      return { isGranted: false, message: error instanceof Error ? error.message : String(error) }
    }
  }

  /** Once each: a denial answers the same question again, and must not keep the two of them talking. */
  #tell(title: string, message: string): void {
    if (message === '') return
    const words = `You asked leave for "${title}". It was denied: ${message}`
    if (this.#told.has(words) || this.#told.size >= mostTold) return
    this.#told.add(words)
    this.#unsaid.push(words)
  }
}
