import { z } from 'zod'
import type { EventBody } from '../../shared/events.ts'
import { short, shortInput } from './shorten.ts'

const block = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), text: z.string() }),
  z.object({ type: z.literal('thinking'), thinking: z.string() }),
  z.object({ type: z.literal('tool_use'), id: z.string(), name: z.string(), input: z.unknown() }),
  z.object({
    type: z.literal('tool_result'),
    tool_use_id: z.string(),
    content: z.unknown(),
    is_error: z.boolean().nullish(),
  }),
])
const line = z.object({
  type: z.enum(['assistant', 'user']),
  message: z.object({ id: z.string().nullish(), content: z.array(z.unknown()) }),
})

function titleOf(name: string, input: unknown): string {
  const fields = (input ?? {}) as Record<string, unknown>
  const said = ['command', 'file_path', 'path', 'pattern', 'url', 'description'].map((key) => fields[key])
  return short(said.find((value) => typeof value === 'string') ?? name)
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((each) => (each as { text?: unknown } | null)?.text)
    .filter((text) => typeof text === 'string')
    .join('\n')
}

/** One line of Claude Code's stream of events (`--output-format stream-json`), which others speak as well. */
export function readStreamJson(text: string): readonly EventBody[] {
  const start = text.indexOf('{')
  if (start === -1) return []
  let said: unknown
  try {
    said = JSON.parse(text.slice(start))
  } catch {
    return []
  }
  const known = line.safeParse(said)
  if (!known.success) return []
  const { content, id } = known.data.message
  const turn = id == null ? {} : { turn: id }
  return content.flatMap((each): EventBody[] => {
    const found = block.safeParse(each)
    if (!found.success) return []
    const part = found.data
    switch (part.type) {
      case 'text': {
        const role = known.data.type === 'assistant' ? 'agent' : 'user'
        return [{ type: 'AgentMessage', role, text: short(part.text), ...turn }]
      }
      case 'thinking':
        return [{ type: 'AgentMessage', role: 'thought', text: short(part.thinking), ...turn }]
      case 'tool_use': {
        const input = shortInput(part.input)
        const title = titleOf(part.name, part.input)
        return [{ type: 'ToolCall', id: part.id, tool: part.name, title, input, ...turn }]
      }
      case 'tool_result': {
        const ok = part.is_error !== true
        return [{ type: 'ToolResult', id: part.tool_use_id, ok, text: short(textOf(part.content)) }]
      }
    }
  })
}
