import { expect, test } from 'vitest'
import { protocolReader } from './index.ts'

const reader = () => protocolReader({ protocol: 'claude-stream-json' })!
const bytes = (...lines: unknown[]) =>
  Buffer.from(lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\r\n`).join(''))
const assistant = (id: string, ...content: unknown[]) => ({ type: 'assistant', message: { id, content } })

const conversation = bytes(
  { type: 'system', subtype: 'init', tools: ['Bash'] },
  'npm warn something',
  assistant('m1', { type: 'text', text: 'I look — at it' }),
  assistant('m1', { type: 'tool_use', id: 't1', name: 'Bash', input: { command: 'ls -l' } }),
  {
    type: 'user',
    message: {
      content: [{ type: 'tool_result', tool_use_id: 't1', content: [{ type: 'text', text: 'a' }] }],
    },
  },
  { type: 'result', num_turns: 1 },
)
const events = [
  { type: 'AgentMessage', role: 'agent', text: 'I look — at it', turn: 'm1' },
  { type: 'ToolCall', id: 't1', tool: 'Bash', title: 'ls -l', input: { command: 'ls -l' }, turn: 'm1' },
  { type: 'ToolResult', id: 't1', ok: true, text: 'a' },
]

test('an agent’s stream of events is read, whatever stands between', () => {
  expect(reader().read(conversation)).toEqual(events)
})

test('it makes no difference where the pieces end, even within a letter', () => {
  for (const size of [1, 2, 7, 100]) {
    const read = reader()
    const found = []
    for (let at = 0; at < conversation.length; at += size)
      found.push(...read.read(conversation.subarray(at, at + size)))
    expect(found).toEqual(events)
  }
})

test('a line without an end is not kept for ever, and the next one is read', () => {
  const read = reader()
  for (let count = 0; count < 40; count++) read.read(Buffer.alloc(64 * 1024, '{'))
  expect(read.read(Buffer.concat([Buffer.from('"}\n'), conversation]))).toEqual(events)
})

test('what is long is cut, but for the command that is judged', () => {
  const long = 'x'.repeat(10_000)
  const [message, call, other] = reader().read(
    bytes(
      assistant(
        'm1',
        { type: 'text', text: long },
        { type: 'tool_use', id: 't1', name: 'Bash', input: { command: 'git push', stdin: long } },
        { type: 'tool_use', id: 't2', name: 'Write', input: { file_path: 'a', content: long } },
      ),
    ),
  )
  expect(message).toMatchObject({ text: `${long.slice(0, 4000)}…` })
  expect(call).toMatchObject({ input: { command: 'git push' } })
  expect(other).toMatchObject({ title: 'a', input: undefined })
})

test('a terminal has no protocol', () => {
  expect(protocolReader({ protocol: 'terminal' })).toBeNull()
})
