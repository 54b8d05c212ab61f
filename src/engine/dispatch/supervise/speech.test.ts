import { expect, test } from 'vitest'
import { agentCardSchema } from '../../../shared/card.ts'
import type { EventBody } from '../../../shared/events.ts'
import type { Job } from '../prepare/job.ts'
import { speechOf } from './speech.ts'

/** An agent over ACP that answers as it is told to, and stays or leaves. */
function speak(answers: Readonly<Record<string, unknown>>) {
  const seen = { killed: 0, inputEnded: false, shown: '', events: [] as EventBody[] }
  const card = agentCardSchema.parse({ id: 'a', name: 'A', command: ['a'], protocol: 'acp' })
  const speech = speechOf({ card, prompt: 'go', systemPrompt: null } as unknown as Job, {
    io: {
      write: (line: string | Uint8Array) => {
        const { id, method } = JSON.parse(String(line)) as { id: number; method: string }
        if (method in answers) hear({ id, result: answers[method] })
      },
      endInput: () => (seen.inputEnded = true),
    } as never,
    cwd: '/shop',
    canAsk: false,
    said: (event) => seen.events.push(event),
    guards: { refusal: () => null },
    boundary: { permit: async () => ({ isGranted: true, message: '' }) },
    kill: async () => void seen.killed++,
    sink: (chunk) => void (seen.shown += chunk.toString()),
    leavingMs: 1,
  })
  const hear = (message: object) => speech.read(Buffer.from(`${JSON.stringify(message)}\n`))
  return { speech, seen, hear }
}
const polite = { initialize: { protocolVersion: 1 }, 'session/new': { sessionId: 's' } }
const ended = { status: 'failed', error: 'the command was ended by SIGKILL' } as const

test('an agent that stays after its work is done is sent away, and its work counts', async () => {
  const { speech, seen, hear } = speak({ ...polite, 'session/prompt': { stopReason: 'end_turn' } })
  const content = { type: 'text', text: 'I am done' }
  speech.begin()
  hear({ method: 'session/update', params: { update: { sessionUpdate: 'agent_message_chunk', content } } })
  await expect.poll(() => seen.killed).toBe(1)
  expect(seen).toMatchObject({ inputEnded: true, shown: 'I am done\n' })
  expect(await speech.judged(ended)).toEqual({ status: 'completed', error: null })
})

test('a run that we end because it cannot be understood says so, and not how it was ended', async () => {
  const { speech, seen } = speak(polite)
  speech.begin()
  await expect.poll(() => seen.events.length).toBe(1)
  for (let count = 0; count < 17; count++) speech.read(Buffer.alloc(1024 * 1024, '{'))
  await expect.poll(() => seen.killed).toBe(1)
  expect((await speech.judged(ended)).error).toMatch(/^acp: a message was longer/)
})

test('an agent that ends by itself before its work is done has failed, for its own reason if it has one', async () => {
  for (const [error, told] of [
    [null, 'acp: the agent ended before its work was done'],
    ['a: no such command in the sandbox', 'a: no such command in the sandbox'],
  ]) {
    const { speech } = speak(polite)
    speech.begin()
    expect(await speech.judged({ status: 'failed', error: error ?? null })).toEqual({
      status: 'failed',
      error: told,
    })
  }
  const { speech } = speak(polite)
  speech.begin()
  const cancelled = { status: 'cancelled', error: 'cancelled by you' } as const
  expect(await speech.judged(cancelled)).toEqual(cancelled)
})
