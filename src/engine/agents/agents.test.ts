import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { agentCardSchema } from '../../shared/card.ts'
import { chooseCard, commandLine, findCard, loadCards } from './index.ts'

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

test('a broken card stops only who uses it, and others are told its file, its line and what to do', async () => {
  const folder = join(config, 'agents')
  await mkdir(folder)
  const bad = { 'bad.json': '{\n  "id": "BAD",\n  "name": 3\n}', 'torn.json': '{\n  "name": "Torn",\n' }
  for (const [name, text] of Object.entries(bad)) await writeFile(join(folder, name), text)
  const { card, notes } = await chooseCard(config, 'command')
  expect(card.id).toBe('command')
  expect(notes).toEqual([
    expect.stringMatching(/bad\.json:2: id: lowercase .*name: .*Mend the file or move it away/),
    expect.stringMatching(/torn\.json:\d: not JSON .*Mend the file or move it away/),
  ])
  for (const id of ['BAD', 'torn']) {
    await expect(findCard(config, id)).rejects.toMatchObject({ code: 'agent.bad_card', kind: 'input' })
  }
  await expect(findCard(config, 'nobody')).rejects.toMatchObject({
    hint: expect.stringContaining('torn.json'),
  })
})

test('whoever uses a card is told of each key in it that nothing acts on, its line and what may be meant', async () => {
  const folder = join(config, 'agents')
  await mkdir(folder)
  const text = `{ "id": "mine", "name": "Mine", "command": ["true"],
  "rootModes": { "*": "ro" },
  "sandboxRequirements": {
    "reed": [], "colour": 1 } }`
  await writeFile(join(folder, 'mine.json'), text)
  const { notes } = await chooseCard(config, 'mine')
  expect(notes).toEqual([
    expect.stringMatching(
      /mine\.json:2: rootModes: unknown key, ignored: is sandboxRequirements\.rootModes meant\?$/,
    ),
    expect.stringMatching(
      /mine\.json:4: sandboxRequirements\.reed: unknown key, ignored: is sandboxRequirements\.read meant\?$/,
    ),
    expect.stringMatching(/mine\.json:4: sandboxRequirements\.colour: unknown key, ignored$/),
  ])
  expect((await chooseCard(config, 'command')).notes).toEqual([])
})

test('a pipe among the cards is named, and nobody waits at it', async () => {
  await mkdir(join(config, 'agents'))
  execFileSync('mkfifo', [join(config, 'agents', 'pipe.json')])
  const { notes } = await chooseCard(config, 'command')
  expect(notes).toEqual([
    expect.stringMatching(/pipe\.json: it is no regular file.*Mend the file or move it away/),
  ])
  await expect(findCard(config, 'pipe')).rejects.toMatchObject({ code: 'agent.bad_card' })
})

test.each(['{"id":"shell","name":3}', '{"id":"shell",', '{"id":"shell","name":"Mine"} x'])(
  'a broken card of the user is never replaced by the shipped one it stands for: %s',
  async (text) => {
    await mkdir(join(config, 'agents'))
    await writeFile(join(config, 'agents', 'mine.json'), text)
    await expect(findCard(config, 'shell')).rejects.toMatchObject({ code: 'agent.bad_card' })
    expect((await loadCards(config)).map(({ id }) => id)).not.toContain('shell')
  },
)

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
