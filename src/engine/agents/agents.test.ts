import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { agentCardSchema } from '../../shared/card.ts'
import { commandLine, findCard, loadCards } from './index.ts'

let config: string
beforeEach(async () => {
  config = await mkdtemp(join(tmpdir(), 'orangery-agents-'))
})
afterEach(() => rm(config, { recursive: true }))

const none = { command: [], prompt: null, systemPrompt: null }

test('the cards that ship with Orangery are valid', async () => {
  const cards = await loadCards(config)
  expect(cards.map((card) => card.id)).toEqual(expect.arrayContaining(['command', 'shell']))
})

test('the example cards are valid and let the agent ask, over ACP or with our tools', async () => {
  const folder = join(import.meta.dirname, '../../../docs/agents')
  const files = (await readdir(folder)).filter((name) => name.endsWith('.json'))
  expect(files.length).toBeGreaterThan(3)
  for (const file of files) {
    const card = agentCardSchema.parse(JSON.parse(await readFile(join(folder, file), 'utf8')))
    expect(`${card.id}.json`).toBe(file)
    expect(card.protocol === 'acp' || card.command.join(' ').includes('/run/orangery/door/'), file).toBe(true)
  }
})

test('an agent that is spoken to over a protocol needs something to be told', () => {
  const card = agentCardSchema.parse({ id: 'a', name: 'A', command: ['a', '--acp'], protocol: 'acp' })
  expect(() => commandLine(card, none)).toThrow(/no prompt/)
  expect(commandLine(card, { ...none, prompt: 'x' })).toEqual(['a', '--acp'])
})

test('a card of the user wins over a shipped one with the same id', async () => {
  await mkdir(join(config, 'agents'))
  await writeFile(
    join(config, 'agents', 'mine.json'),
    JSON.stringify({ id: 'shell', name: 'Mine', command: ['bash'] }),
  )
  expect((await findCard(config, 'shell')).name).toBe('Mine')
})

test('a broken card is named with its file and what is wrong', async () => {
  await mkdir(join(config, 'agents'))
  await writeFile(join(config, 'agents', 'bad.json'), '{"id":"UPPER CASE","name":"x"}')
  await expect(loadCards(config)).rejects.toMatchObject({ code: 'agent.bad_card', kind: 'input' })
})

test('an unknown agent is not found and the known ones are named', async () => {
  await expect(findCard(config, 'nobody')).rejects.toMatchObject({
    kind: 'not_found',
    hint: expect.stringContaining('shell'),
  })
})

test('a prompt is put in as one argument and never parsed again', () => {
  const card = agentCardSchema.parse({
    id: 'a',
    name: 'A',
    command: ['run', '--p={prompt}', '{system_prompt}'],
  })
  const line = commandLine(card, { command: [], prompt: '$(x) {system_prompt}', systemPrompt: 's' })
  expect(line).toEqual(['run', '--p=$(x) {system_prompt}', 's'])
})

test('a card without a command needs the caller to give one', () => {
  const card = agentCardSchema.parse({ id: 'command', name: 'Command' })
  expect(() => commandLine(card, none)).toThrow(/no command/)
  expect(commandLine(card, { ...none, command: ['ls', '-l'] })).toEqual(['ls', '-l'])
})
