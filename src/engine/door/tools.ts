import { z } from 'zod'
import { boundaryLevels, boundaryLevelSchema } from '../../shared/boundary.ts'
import { requestStatuses } from '../../shared/escalation.ts'
import { outputModes } from '../../shared/spec.ts'
import type { Answered, Listener, Waiting } from './asking.ts'
import { plainReason, wishFields } from './wish.ts'

/** Below what clients commonly give a call (60 s): an agent that is cut off would not learn the answer. */
const usualWaitSeconds = 50

const requestInput = z.strictObject({
  level: boundaryLevelSchema.describe(
    'The boundary that is needed: readwrite to write files, network to reach the hosts named, full for any public host.',
  ),
  hosts: wishFields.hosts
    .default([])
    .describe('Hosts that are needed, as example.com, example.com:443 or *.example.org.'),
  reason: wishFields.reason.default('').describe('Why, in a sentence for the person who decides.'),
  wait_seconds: wishFields.wait_s
    .default(usualWaitSeconds)
    .describe('How long to wait for the person. Where nobody has answered by then, ask the same again.'),
})
const requestOutput = z.object({
  status: z.enum(['approved', 'denied', 'expired', 'closed', 'open', 'refused']),
  message: z.string(),
})
const showOutput = z.object({
  level: boundaryLevelSchema,
  files: z.enum(['read-only', 'writable']),
  hosts: z.array(z.string()),
  network: z.object({
    mode: z.enum(outputModes),
    allowed: z.array(z.string()),
    denied: z.array(z.string()),
  }),
  refused: z.array(z.object({ host: z.string(), why: z.string() })),
  requests: z.array(
    z.object({
      to: boundaryLevelSchema,
      hosts: z.array(z.string()),
      status: z.enum(requestStatuses),
      message: z.string(),
    }),
  ),
})

const schemaOf = (schema: z.ZodType) => z.toJSONSchema(schema, { target: 'draft-7', io: 'input' })
const outputSchemaOf = (schema: z.ZodType) => z.toJSONSchema(schema, { target: 'draft-7', io: 'output' })

/** What an agent's MCP client is told of us. */
export const toolList = [
  {
    name: 'request_boundary',
    title: 'Ask for a wider boundary',
    description:
      'Asks the person who runs this sandbox for a wider boundary, and waits for the answer. Use it when a write fails ' +
      'because files are read-only, or a host cannot be reached. Once it is approved it holds at once: try again ' +
      'what failed. A denial carries the word of the person: follow it and do not ask for the same again.',
    inputSchema: schemaOf(requestInput),
    outputSchema: outputSchemaOf(requestOutput),
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  },
  {
    name: 'show_boundary',
    title: 'See the own boundary',
    description: `Shows what this sandbox allows now (${boundaryLevels.join(', ')}), which hosts can be reached, which were refused, and what became of the requests so far.`,
    inputSchema: schemaOf(z.strictObject({})),
    outputSchema: outputSchemaOf(showOutput),
    annotations: { readOnlyHint: true, openWorldHint: false },
  },
] as const

export type ToolResult = {
  readonly content: readonly [{ readonly type: 'text'; readonly text: string }]
  readonly structuredContent?: unknown
  readonly isError: boolean
}
const text = (said: string) => [{ type: 'text', text: said }] as const

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
const ofAnswer = ({ status, message }: Answered): ToolResult => ({
  content: text(`${status}: ${message}`),
  structuredContent: { status, message },
  isError: status === 'refused',
})
const refused = (why: string): ToolResult => ofAnswer({ status: 'refused', message: why })

function show(listener: Listener): ToolResult {
  try {
    const shown = listener.show()
    return { content: text(JSON.stringify(shown)), structuredContent: shown, isError: false }
  } catch (error) {
    return refused(messageOf(error))
  }
}

/** Null: there is no such tool. Input that does not fit is an answer the agent can learn from, no failure. */
export async function callTool(
  name: string,
  input: unknown,
  listener: Listener,
  waiting: Waiting,
): Promise<ToolResult | null> {
  if (name === 'show_boundary') return show(listener)
  if (name !== 'request_boundary') return null
  const read = requestInput.safeParse(input)
  if (!read.success) return refused(z.prettifyError(read.error).replaceAll(/\s*\n\s*/g, ' '))
  const { level: to, hosts, reason, wait_seconds: seconds } = read.data
  const asked = { to, hosts, reason: plainReason(reason), waitMs: seconds * 1000 }
  try {
    return ofAnswer(await listener.ask(asked, waiting))
  } catch (error) {
    return refused(messageOf(error))
  }
}
