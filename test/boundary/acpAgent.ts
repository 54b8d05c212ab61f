import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import {
  agent,
  methods,
  ndJsonStream,
  type NewSessionRequest,
  type RequestPermissionResponse,
} from '@agentclientprotocol/sdk'

/**
 * An agent made with the protocol's own SDK, whose prompt is a list of what to do. It asks leave for each, does only
 * what it was granted, and writes down what it was told after its first turn.
 */
export type Doing = { readonly edit: string } | { readonly fetch: string } | { readonly leave: number }

const options = [
  { optionId: 'yes-always', name: 'Always', kind: 'allow_always' as const },
  { optionId: 'yes', name: 'Once', kind: 'allow_once' as const },
  { optionId: 'no', name: 'No', kind: 'reject_once' as const },
]
let session: NewSessionRequest
let turns = 0
const chosen: string[] = []

const app = agent({ name: 'scripted' })
  .onRequest(methods.agent.initialize, () => ({ protocolVersion: 1, agentCapabilities: {} }))
  .onRequest(methods.agent.session.new, ({ params }) => {
    session = params
    return { sessionId: 'one' }
  })
  .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
    const { sessionId } = params
    const said = params.prompt.map((block) => (block.type === 'text' ? block.text : '')).join('\n')
    const update = (content: object) =>
      client.notify(methods.client.session.update, { sessionId, update: content as never })
    const say = (text: string) =>
      update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } })
    if (turns++ > 0) {
      await writeFile('told.json', JSON.stringify({ said, chosen, servers: session.mcpServers }))
      await say('I was told.')
      return { stopReason: 'end_turn' }
    }
    for (const [at, doing] of (JSON.parse(said) as Doing[]).entries()) {
      if ('leave' in doing) process.exit(doing.leave)
      const call =
        'edit' in doing
          ? { kind: 'edit' as const, title: `Edit ${doing.edit}`, path: join(session.cwd, doing.edit) }
          : { kind: 'fetch' as const, title: `Fetch ${doing.fetch}`, url: doing.fetch }
      const { kind, title, ...rawInput } = call
      const toolCall = { toolCallId: `call-${at}`, kind, title, rawInput }
      await update({ sessionUpdate: 'tool_call', ...toolCall, status: 'pending' })
      const { outcome }: RequestPermissionResponse = await client.request(
        methods.client.session.requestPermission,
        { sessionId, toolCall, options },
      )
      const choice = outcome.outcome === 'selected' ? outcome.optionId : 'none'
      chosen.push(choice)
      const done =
        'edit' in doing && choice === 'yes' ? writeFile(doing.edit, await own()) : Promise.resolve()
      const status = await done.then(
        () => (choice === 'yes' ? 'completed' : 'failed'),
        () => 'failed',
      )
      await update({ sessionUpdate: 'tool_call_update', toolCallId: toolCall.toolCallId, status })
    }
    await say('That ')
    await say('was all.')
    return { stopReason: 'end_turn' }
  })

const own = () => readFile(import.meta.filename)
app.connect(
  ndJsonStream(
    Writable.toWeb(process.stdout) as WritableStream<Uint8Array>,
    Readable.toWeb(process.stdin) as ReadableStream<Uint8Array>,
  ),
)
