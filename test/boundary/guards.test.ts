import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import type { ConfigFile } from '../../src/shared/config.ts'
import type { DispatchDetail } from '../../src/shared/dispatch.ts'
import { waitUntil, type Bench } from '../dispatch/harness.ts'
import { benchWithCard } from './scripted.ts'

let bench: Bench

/** An agent whose prompt is a script and whose output is a stream of events, as a real one's is. */
const card = {
  id: 'scripted',
  name: 'Scripted',
  command: ['sh', '-c', '{prompt}'],
  protocol: 'claude-stream-json',
}

const current = benchWithCard(card)
beforeEach(() => {
  bench = current()
})

const user = (config: ConfigFile) =>
  writeFile(join(bench.base, 'config', 'orangery', 'config.json'), JSON.stringify(config))
const spawn = (script: string, spec: object = {}) =>
  bench.spawn(script, { agent: 'scripted', sandbox_spec: JSON.stringify(spec) })

/** A shell line that prints one message of the agent. */
function says(turn: string, ...content: object[]): string {
  const line = JSON.stringify({ type: 'assistant', message: { id: turn, content } })
  return `printf '%s\\n' '${line.replaceAll("'", String.raw`'\''`)}'`
}
const uses = (name: string, input: object = {}) => ({ type: 'tool_use', id: name, name, input })
const text = { type: 'text', text: 'hm' }
const kinds = ({ sandbox_effective: effective }: DispatchDetail) =>
  (effective as { violations: { kind: string; detail: string; certain: boolean }[] }).violations

test('what an agent’s protocol shows is counted, and beyond the contract it is recorded and goes on', async () => {
  const id = await spawn(
    [
      says('m1', text, uses('Read')),
      says('m1', uses('Bash', { command: 'ls' })),
      says('m2', uses('Web')),
      says('m3', text),
      'touch went-on',
    ].join('\n'),
    { tools_allowed: ['Read', 'Bash'], max_turns: 2, max_commands: 2 },
  )
  const dispatch = await bench.ended(id)
  expect(dispatch).toMatchObject({ status: 'completed', changeset: { files: 1 } })
  expect(dispatch.sandbox_effective).toMatchObject({
    tools_used: ['Read', 'Bash', 'Web'],
    turns_used: 3,
    commands_used: 3,
  })
  expect(kinds(dispatch)).toMatchObject([
    { kind: 'tool_not_allowed', detail: expect.stringContaining('Web'), certain: true },
    { kind: 'max_commands', certain: true },
    { kind: 'max_turns', certain: true },
  ])
})

test('a contract that says stop ends the run where it goes beyond, and what was written waits for review', async () => {
  const script = ['touch before', says('m1', uses('Web')), 'sleep 600', 'touch after'].join('\n')
  const dispatch = await bench.ended(await spawn(script, { tools_denied: ['Web'], on_limit: 'stop' }))
  expect(dispatch).toMatchObject({ status: 'failed', error: 'tool_not_allowed: Web: it is denied' })
  expect(dispatch.changeset).toMatchObject({ state: 'review', files: 1 })
})

test('a call that nobody can answer ends the run, although the sandbox allows the tool', async () => {
  const script = [says('m1', uses('AskUserQuestion')), 'sleep 600'].join('\n')
  const dispatch = await bench.ended(await spawn(script, { tools_allowed: ['AskUserQuestion'] }))
  expect(dispatch).toMatchObject({ status: 'failed', error: expect.stringContaining('forbidden_tool') })
  // The control: where the user forbids nothing, it goes on.
  await user({ agentForbiddenTools: [] })
  expect((await bench.ended(await spawn(says('m1', uses('AskUserQuestion'))))).status).toBe('completed')
})

test('tools and commands of a boundary are held to while it holds, and lifted when it is widened', async () => {
  await user({
    sandboxLevels: { readonly: { tools: { allow: ['Bash'] }, commands: { deny: ['git push'] } } },
  })
  const push = uses('Bash', { command: 'cd x && git push' })
  const script = [
    says('m1', uses('Write'), push),
    'orangery-ask readwrite --wait 300',
    says('m2', uses('Edit'), { ...push, id: 'second' }),
  ].join('\n')
  const id = await spawn(script, { boundary: 'readonly' })
  await waitUntil('it asks', async () => (await bench.client.call('boundary.inbox', {})).length > 0, 60_000)
  await bench.client.call('boundary.approve', { id })
  const dispatch = await bench.ended(id)
  expect(dispatch.sandbox_effective).toMatchObject({ tools_used: ['Write', 'Bash', 'Edit'] })
  expect(kinds(dispatch).map(({ kind, detail }) => `${kind} ${detail}`)).toEqual([
    'tool_not_allowed Write: it is not among the tools that are allowed',
    'command_not_allowed git push: denied at this boundary',
  ])
})

test('a plain command that prints such events is not believed', async () => {
  const id = await bench.spawn(says('m1', uses('AskUserQuestion')), {
    sandbox_spec: '{"tools_allowed":[],"max_turns":1,"on_limit":"stop"}',
  })
  expect(await bench.ended(id)).toMatchObject({
    status: 'completed',
    sandbox_effective: { tools_used: [], turns_used: 0, violations: [] },
  })
})
