import { z } from 'zod'

/** The Agent Client Protocol as far as we speak it: version 1, without its `fs/*` and `terminal/*`. */
export const protocolVersion = 1

const textContent = z.looseObject({ type: z.literal('text'), text: z.string() })
const anyContent = z.union([textContent, z.looseObject({ type: z.string() })])
export type Content = z.infer<typeof anyContent>

export const textOf = (content: Content): string =>
  content.type === 'text' && 'text' in content && typeof content.text === 'string' ? content.text : ''

const toolCallSchema = z.looseObject({
  toolCallId: z.string().max(256),
  title: z.string().nullish(),
  kind: z.string().max(64).nullish(),
  status: z.string().nullish(),
  rawInput: z.unknown().optional(),
  locations: z.array(z.looseObject({ path: z.string() })).nullish(),
  content: z
    .array(z.looseObject({ type: z.string(), content: anyContent.optional(), path: z.string().optional() }))
    .nullish(),
  _meta: z.looseObject({}).nullish(),
})
export type AcpToolCall = z.infer<typeof toolCallSchema>

const chunk = <T extends string>(kind: T) =>
  z.looseObject({ sessionUpdate: z.literal(kind), content: anyContent })

export const updateSchema = z.looseObject({
  update: z.union([
    chunk('agent_message_chunk'),
    chunk('agent_thought_chunk'),
    toolCallSchema.extend({ sessionUpdate: z.enum(['tool_call', 'tool_call_update']) }),
  ]),
})
export type AcpUpdate = z.infer<typeof updateSchema>['update']

const optionKinds = ['allow_once', 'allow_always', 'reject_once', 'reject_always'] as const
export const permissionSchema = z.looseObject({
  toolCall: toolCallSchema,
  options: z.array(z.looseObject({ optionId: z.string(), kind: z.string() })).max(50),
})
export type PermissionOptions = z.infer<typeof permissionSchema>['options']

export const initializedSchema = z.looseObject({ protocolVersion: z.number() })
export const sessionSchema = z.looseObject({ sessionId: z.string() })
export const promptedSchema = z.looseObject({ stopReason: z.string().max(64) })

type Outcome = { readonly outcome: 'selected'; readonly optionId: string } | { readonly outcome: 'cancelled' }

/**
 * The option that says what was decided. Ids differ from agent to agent, kinds do not; and never "always" where
 * there is a "once": the boundary may be narrowed again.
 */
export function outcomeOf(options: PermissionOptions, isGranted: boolean): Outcome {
  const wanted = optionKinds.filter((kind) => kind.startsWith(isGranted ? 'allow' : 'reject'))
  const chosen = wanted
    .map((kind) => options.find((option) => option.kind === kind))
    .find((option) => option !== undefined)
  return chosen === undefined ? { outcome: 'cancelled' } : { outcome: 'selected', optionId: chosen.optionId }
}
