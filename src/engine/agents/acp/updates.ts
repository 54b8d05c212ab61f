import type { EventBody } from '../../../shared/events.ts'
import { short, shortInput } from '../shorten.ts'
import { textOf, type AcpToolCall, type AcpUpdate } from './messages.ts'

export type ToolCallEvent = Extract<EventBody, { type: 'ToolCall' }>
type Role = 'agent' | 'thought'

/** An agent that makes up calls without end must not fill our memory with their names. */
const mostKnown = 2_000
const longestPiece = 4_000

/** Adapters put the name of the agent's own tool beside the kind that the protocol has. */
function toolOf({ kind, _meta: meta }: AcpToolCall): string {
  for (const value of Object.values(meta ?? {})) {
    const name = (value as { toolName?: unknown } | null)?.toolName
    if (typeof name === 'string' && name !== '') return name.slice(0, 200)
  }
  return kind ?? 'other'
}

/** The agent's updates as our events: pieces of a text joined, a call once however often it is updated. */
export class AcpUpdates {
  #role: Role = 'agent'
  #text = ''
  #round = 0
  #isAfterResult = true
  readonly #called = new Set<string>()
  readonly #ended = new Set<string>()

  read(update: AcpUpdate): EventBody[] {
    switch (update.sessionUpdate) {
      case 'agent_message_chunk':
        return this.#piece('agent', textOf(update.content))
      case 'agent_thought_chunk':
        return this.#piece('thought', textOf(update.content))
      case 'tool_call':
      case 'tool_call_update':
        return [...this.flush(), ...this.call(update), ...this.#result(update)]
    }
  }

  /** A call, the first time it shows: some agents update one, or ask about it, that they never announced. */
  call(call: AcpToolCall): ToolCallEvent[] {
    if (this.#called.has(call.toolCallId) || this.#called.size >= mostKnown) return []
    this.#called.add(call.toolCallId)
    return [this.eventOf(call)]
  }

  eventOf(call: AcpToolCall): ToolCallEvent {
    const tool = toolOf(call)
    const input = shortInput(call.rawInput)
    const turn = this.#turn()
    return { type: 'ToolCall', id: call.toolCallId, tool, title: short(call.title ?? tool), input, turn }
  }

  /** What was said so far, where nothing more of it comes. */
  flush(): EventBody[] {
    if (this.#text === '') return []
    const event: EventBody = {
      type: 'AgentMessage',
      role: this.#role,
      text: short(this.#text),
      turn: this.#turn(),
    }
    this.#text = ''
    return [event]
  }

  /** The protocol names no turns of the model: what comes after a result is the next one. */
  #turn(): string {
    if (this.#isAfterResult) this.#round++
    this.#isAfterResult = false
    return String(this.#round)
  }

  #piece(role: Role, text: string): EventBody[] {
    const before = role === this.#role && this.#text.length < longestPiece ? [] : this.flush()
    this.#role = role
    this.#text += text
    return before
  }

  #result({ toolCallId: id, status, content }: AcpToolCall): EventBody[] {
    if ((status !== 'completed' && status !== 'failed') || this.#ended.has(id)) return []
    if (this.#ended.size < mostKnown) this.#ended.add(id)
    this.#isAfterResult = true
    const text = (content ?? []).map((part) => (part.content === undefined ? '' : textOf(part.content)))
    return [{ type: 'ToolResult', id, ok: status === 'completed', text: short(text.join('\n')) }]
  }
}
