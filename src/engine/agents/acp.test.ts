import { expect, test } from 'vitest'
import type { EventBody } from '../../shared/events.ts'
import type { Need } from '../base/escalation.ts'
import { AcpConversation } from './index.ts'

type Message = { id?: number; method?: string; params?: Record<string, unknown>; result?: unknown }

/** A conversation whose other side is played here, line by line, as no well-made agent would. */
function talk(permit: (need: Need) => { isGranted: boolean; message: string } = () => yes) {
  const sent: Message[] = []
  const events: EventBody[] = []
  const needs: Need[] = []
  const conversation = new AcpConversation({
    version: '1',
    prompt: 'do it',
    systemPrompt: 'be kind',
    cwd: '/shop',
    mcpServers: [{ name: 'orangery', command: '/ask', args: ['mcp'] }],
    send: (line) => sent.push(JSON.parse(line) as Message),
    said: (event) => events.push(event),
    refusal: ({ tool }) => (tool === 'Forbidden' ? 'Forbidden: it is denied' : null),
    permit: async (need) => {
      needs.push(need)
      return permit(need)
    },
  })
  const say = (message: unknown) =>
    conversation.receive(typeof message === 'string' ? message : JSON.stringify(message))
  const last = (method: string) => sent.findLast((message) => message.method === method)
  const settle = () => new Promise((resolve) => setImmediate(resolve))
  const answer = async (method: string, result: unknown) => {
    say({ jsonrpc: '2.0', id: last(method)?.id, result })
    await settle()
  }
  const opened = async () => {
    const leading = conversation.lead()
    await answer('initialize', { protocolVersion: 1 })
    await answer('session/new', { sessionId: 's' })
    return { leading }
  }
  let asked = 100
  const ask = async (toolCall: object, options: object[] = usual) => {
    const id = ++asked
    say({ jsonrpc: '2.0', id, method: 'session/request_permission', params: { toolCall, options } })
    await settle()
    return sent.find((message) => message.id === id && message.method === undefined)
  }
  const update = (fields: object) =>
    say({ jsonrpc: '2.0', method: 'session/update', params: { sessionId: 's', update: fields } })
  return { conversation, sent, events, needs, say, last, settle, answer, opened, ask, update }
}
const yes = { isGranted: true, message: '' }
const usual = [
  { optionId: 'a', name: 'Always', kind: 'allow_always' },
  { optionId: 'o', name: 'Once', kind: 'allow_once' },
  { optionId: 'n', name: 'No', kind: 'reject_once' },
]
const edit = { toolCallId: 'c', title: 'Edit a.ts', kind: 'edit', locations: [{ path: '/shop/a.ts' }] }

test('the prompt is the first thing said, and what comes back is told as events, once each', async () => {
  const { opened, last, answer, update, events } = talk()
  const { leading } = await opened()
  expect(last('session/prompt')?.params).toMatchObject({
    sessionId: 's',
    prompt: [{ text: 'be kind' }, { text: 'do it' }],
  })
  expect(last('session/new')?.params).toMatchObject({
    cwd: '/shop',
    mcpServers: [{ command: '/ask', env: [] }],
  })
  for (const text of ['I lo', 'ok'])
    update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } })
  update({ sessionUpdate: 'tool_call', ...edit, status: 'pending', rawInput: { path: '/shop/a.ts' } })
  update({ sessionUpdate: 'tool_call_update', toolCallId: 'c', status: 'completed' })
  update({ sessionUpdate: 'a_kind_of_tomorrow', anything: 1 })
  update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'done' } })
  await answer('session/prompt', { stopReason: 'end_turn' })
  expect(await leading).toBeNull()
  expect(events.slice(2)).toMatchObject([
    { type: 'AgentMessage', role: 'agent', text: 'I look', turn: '1' },
    { type: 'ToolCall', id: 'c', tool: 'edit', title: 'Edit a.ts', turn: '1' },
    { type: 'ToolResult', id: 'c', ok: true },
    { type: 'AgentMessage', role: 'agent', text: 'done', turn: '2' },
  ])
})

test('leave is answered by the kind of an option, and never for always where once is offered', async () => {
  const { opened, ask, needs, events } = talk()
  await opened()
  expect(await ask(edit)).toMatchObject({ result: { outcome: { outcome: 'selected', optionId: 'o' } } })
  expect(needs).toEqual([{ kind: 'write', paths: ['/shop/a.ts'] }])
  // One that was never announced is told of all the same.
  expect(events).toMatchObject([{}, {}, { type: 'ToolCall', id: 'c' }])
  expect(await ask(edit, [{ optionId: 'x', kind: 'reject_once' }])).toMatchObject({
    result: { outcome: { outcome: 'cancelled' } },
  })
})

test.each([
  [
    { kind: 'fetch', rawInput: { url: 'https://docs.test/a?b' } },
    { kind: 'reach', hosts: ['docs.test:443'] },
  ],
  [
    { kind: 'fetch', rawInput: { url: 'http://x.test:8080' } },
    { kind: 'reach', hosts: ['x.test:8080'] },
  ],
  [{ kind: 'fetch', rawInput: { url: 'file:///etc/passwd' } }, { kind: 'nothing' }],
  [
    { kind: 'delete', rawInput: { file_path: '/shop/b' } },
    { kind: 'write', paths: ['/shop/b'] },
  ],
  [{ kind: 'execute', rawInput: { command: 'make' } }, { kind: 'nothing' }],
  [
    { kind: 'move', rawInput: null },
    { kind: 'write', paths: [] },
  ],
  [{}, { kind: 'nothing' }],
])('what a call needs of the boundary is read from its kind and its input: %j', async (call, need) => {
  const { opened, ask, needs } = talk()
  await opened()
  await ask({ toolCallId: 'c', ...call })
  expect(needs).toEqual([need])
})

test('a denial carries the person’s words into the next turn, once', async () => {
  const { opened, ask, answer, last } = talk(() => ({ isGranted: false, message: 'use the mirror' }))
  const { leading } = await opened()
  expect(await ask(edit)).toMatchObject({
    result: { outcome: { optionId: 'n' }, _meta: { orangery: { message: 'use the mirror' } } },
  })
  await ask(edit)
  const first = last('session/prompt')
  await answer('session/prompt', { stopReason: 'cancelled' })
  expect(last('session/prompt')?.params).toMatchObject({
    prompt: [{ text: 'You asked leave for "Edit a.ts". It was denied: use the mirror' }],
  })
  expect(last('session/prompt')?.id).not.toBe(first?.id)
  await ask(edit)
  await answer('session/prompt', { stopReason: 'end_turn' })
  expect(await leading).toBeNull()
})

test('a tool that is out of the question is refused without asking anybody', async () => {
  const { opened, ask, needs } = talk()
  await opened()
  const call = { toolCallId: 'c', kind: 'edit', _meta: { claudeCode: { toolName: 'Forbidden' } } }
  expect(await ask(call)).toMatchObject({ result: { outcome: { optionId: 'n' } } })
  expect(needs).toEqual([])
})

test('what is no message, or asks for what we do not offer, does no harm', async () => {
  const { opened, say, settle, sent, answer } = talk()
  const { leading } = await opened()
  for (const noise of ['', 'npm warn', '{', '[]', '{"id":1e9,"result":1}', '{"method":"session/update"}'])
    say(noise)
  say({ id: 'f', method: 'fs/read_text_file', params: { path: '/etc/shadow' } })
  say({ id: 'p', method: 'session/request_permission', params: { options: 'all' } })
  await settle()
  expect(sent.slice(-2)).toMatchObject([
    { id: 'f', error: { code: -32601 } },
    { id: 'p', error: { code: -32602 } },
  ])
  await answer('session/prompt', { stopReason: 'refusal' })
  expect(await leading).toBe('the agent stopped: refusal')
})

test('an agent of another version, one that is gone and one that says no are told apart', async () => {
  const other = talk()
  const first = other.conversation.lead()
  await other.answer('initialize', { protocolVersion: 7 })
  expect(await first).toContain('does not speak version 1')
  const gone = talk()
  const { leading: second } = await gone.opened()
  gone.conversation.end('the agent ended before its work was done')
  expect(await second).toContain('ended before')
  const locked = talk()
  const third = locked.conversation.lead()
  locked.say({
    id: locked.last('initialize')?.id,
    error: { code: -32000, message: 'Authentication required' },
  })
  expect(await third).toBe('Authentication required')
})
