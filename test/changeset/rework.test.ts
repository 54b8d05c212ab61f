import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'
import { Bench, waitUntil } from '../dispatch/harness.ts'
import type { Changeset } from '../../src/shared/changeset.ts'

/** An agent of a kind there is: it takes a prompt, keeps notes in its home, and obeys what it is told. */
const agent = `
prompt=$1
echo "$prompt" >> ~/conversation
case $prompt in
  *"spell it out"*) sed -i 's/^5$/five/; s/^thirty$/thirty, spelled out/' numbers; wc -l < ~/conversation > turns ;;
  *) sed -i 's/^5$/five/; s/^30$/thirty/' numbers; echo draft > new.txt ;;
esac`

function placeWithAgent(): Place {
  const place = new Place('launcher')
  const cards = join(place.home, 'config/orangery/agents')
  mkdirSync(cards, { recursive: true })
  writeFileSync(
    join(place.folder, 'numbers'),
    `${Array.from({ length: 60 }, (_, at) => at + 1).join('\n')}\n`,
  )
  const card = { id: 'scripted', name: 'Scripted', command: ['sh', '-c', agent, 'agent', '{prompt}'] }
  writeFileSync(join(cards, 'scripted.json'), JSON.stringify(card))
  return place
}

async function json<T>(place: Place, ...words: string[]): Promise<T> {
  const { stdout, stderr, code } = await place.orangery(...words, '--json')
  expect(code, stderr).toBe(0)
  return JSON.parse(stdout) as T
}

test('a changeset sent back goes on in the same workspace with the comments as the prompt, and only what changed is open again', async () => {
  using place = placeWithAgent()
  const { id } = await json<{ id: string }>(
    place,
    'dispatch',
    'spawn',
    '--agent=scripted',
    '--prompt=write numbers as words',
    '--wait',
  )
  const before = await json<Changeset>(place, 'changeset', 'show', id)
  expect(before.files.map((file) => file.path)).toEqual(['new.txt', 'numbers'])
  const [five, thirty] = before.files[1]!.hunks
  const decide = (...words: string[]) => json<Changeset>(place, 'changeset', 'decide', id, ...words)
  await decide('--path', 'numbers', '--hunk', five!.id, 'approve')
  await decide('--path', 'numbers', '--hunk', thirty!.id, 'rework', '--comment', 'spell it out')
  await decide('--path', 'new.txt', 'approve')

  await json(place, 'changeset', 'reject', id, '--comment', 'one more round')
  const sent = await json<{ id: string; state: string; dispatch: string; turn: number }>(
    place,
    'changeset',
    'rework',
    id,
  )
  expect(sent).toMatchObject({ id, state: 'active', turn: 2 })
  expect(sent.dispatch).not.toBe(id)
  expect((await place.orangery('dispatch', 'wait', sent.dispatch)).code).toBe(0)

  const status = await json<{ prompt: string; changeset: object }>(place, 'dispatch', 'status', sent.dispatch)
  expect(status.changeset).toMatchObject({ id, state: 'review' })
  expect(status.prompt).toContain('one more round')
  expect(status.prompt).toContain(`numbers (hunk ${thirty!.id}) [rework]: spell it out`)
  expect(status.prompt).toContain('+thirty')
  expect(status.prompt).not.toContain('new.txt')

  const after = await json<Changeset>(place, 'changeset', 'show', sent.dispatch)
  expect(after).toMatchObject({ id, turn: 2, dispatches: [id, sent.dispatch] })
  expect(after.transitions.map((each) => each.to)).toEqual([
    'active',
    'review',
    'rejected',
    'active',
    'review',
  ])
  const decided = after.files.map((file) => [
    file.path,
    file.hunks.map((hunk) => hunk.decision),
    file.reopened,
  ])
  expect(decided).toEqual([
    ['new.txt', ['approve'], false],
    ['numbers', ['approve', null], true],
    ['turns', [null], false],
  ])
  const since = await place.orangery('changeset', 'diff', id, '--scope', 'review', '--path', 'numbers')
  expect(since.stdout).toContain('-thirty\n+thirty, spelled out')
  expect(since.stdout).not.toContain('+five')

  expect(readFileSync(join(place.folder, 'numbers'), 'utf8')).toContain('\n30\n')
  await json(place, 'changeset', 'apply', id, '--all')
  expect(readFileSync(join(place.folder, 'numbers'), 'utf8')).toContain('thirty, spelled out')
  // The home is the same too: both prompts are in its notes.
  expect(Number(readFileSync(join(place.folder, 'turns'), 'utf8'))).toBeGreaterThan(2)
})

/** Runs a command as the first turn, to its end. */
async function firstTurn(bench: Bench, script: string): Promise<string> {
  const id = await bench.spawn('', { agent: 'command', command: ['sh', '-c', script], prompt: undefined })
  await bench.ended(id)
  return id
}

test('a plain command is run again with the comments in its environment; nothing said is nothing to do', async () => {
  await using bench = await Bench.create()
  const id = await firstTurn(bench, 'echo "turn ${ORANGERY_TURN:-1}" > turn; echo "$ORANGERY_PROMPT" > said')
  const { client } = bench
  await expect(client.call('changeset.rework', { id })).rejects.toMatchObject({
    code: 'changeset.nothing_said',
    kind: 'input',
  })
  const { dispatch } = await client.call('changeset.rework', { id, comment: 'say more' })
  await bench.ended(dispatch)
  const diff = await client.call('changeset.diff', { id })
  expect(diff.text).toContain('+turn 2')
  expect(diff.text).toContain('+say more')
  const invocations = await client.call('agent.list', {})
  expect(invocations.map((each) => each.id)).toEqual([id])
  expect(await client.call('workspace.orphans', {})).toEqual([])
  await client.call('changeset.abandon', { id })
  await expect(client.call('changeset.rework', { id, comment: 'again' })).rejects.toMatchObject({
    kind: 'busy',
  })
})

test('a turn that is killed leaves its changeset in review with what it had written', async () => {
  await using bench = await Bench.create()
  const { client } = bench
  const id = await firstTurn(
    bench,
    'test -n "$ORANGERY_TURN" && echo more > more && exec sleep 600; echo one > one',
  )
  const { dispatch } = await client.call('changeset.rework', { id, comment: 'more' })
  await expect(client.call('changeset.rework', { id, comment: 'and more' })).rejects.toMatchObject({
    code: 'changeset.wrong_state',
  })
  await waitUntil(
    'the second turn is seen',
    async () => (await client.call('changeset.get', { id })).files.length === 2,
    30_000,
  )
  await expect(client.call('changeset.apply', { id, all: true })).rejects.toMatchObject({ kind: 'busy' })
  await client.call('dispatch.kill', { id: dispatch })
  const after = await client.call('changeset.get', { id: dispatch })
  expect(after).toMatchObject({ id, state: 'review', turn: 2 })
  expect(after.files.map((file) => file.path)).toEqual(['more', 'one'])
})

test('a turn whose record is torn while it runs is not discarded before it has ended', async () => {
  await using bench = await Bench.create()
  const { client } = bench
  const script = 'test -n "$ORANGERY_TURN" && echo more > more && exec sleep 600; echo one > one'
  const id = await firstTurn(bench, script)
  const { dispatch } = await client.call('changeset.rework', { id, comment: 'more' })
  await waitUntil(
    'the second turn is seen',
    async () => (await client.call('changeset.get', { id })).files.length === 2,
    30_000,
  )
  const { repo_id } = await client.call('agent.get', { id: dispatch })
  const record = join(bench.dataDir, 'repos', repo_id, 'invocations', dispatch, 'meta.json')
  const whole = readFileSync(record)
  writeFileSync(record, whole.subarray(0, 40))
  const discard = () => client.call('agent.discard', { id: dispatch })
  await expect(discard()).rejects.toMatchObject({ code: 'workspace.in_use', kind: 'busy' })
  await client.call('dispatch.kill', { id: dispatch })
  expect(await discard()).toMatchObject({ id: dispatch })
  expect((await client.call('changeset.get', { id })).files.map((file) => file.path)).toEqual(['more', 'one'])
})
