import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Place, type Ran } from '../../src/cli/testing/orangery.ts'
import { snapshot } from './snapshot.ts'
import { leftovers } from './traces.ts'

type Status = {
  id: string
  status: string
  exit_code: number | null
  sandbox_spec: unknown
  changeset: unknown
}

const json = <T>(ran: Ran): T => {
  expect(ran.stderr).toBe('')
  return JSON.parse(ran.stdout) as T
}
async function newest(place: Place): Promise<Status> {
  const [row] = json<Status[]>(await place.orangery('dispatch', 'list', '--json', '--limit', '1'))
  return json<Status>(await place.orangery('dispatch', 'status', row?.id ?? '', '--json'))
}

test('a run leaves the folder byte for byte as it was, and apply makes exactly its two changes', async () => {
  using place = new Place('launcher')
  writeFileSync(join(place.folder, 'old.txt'), 'old\n')
  writeFileSync(join(place.folder, 'kept.txt'), 'kept\n', { mode: 0o640 })
  const before = snapshot(place.folder)

  const ran = await place.orangery('run', '--', 'sh', '-c', 'echo hi > new.txt; rm old.txt')
  expect(ran).toMatchObject({ code: 0, stdout: '' })
  expect(ran.stderr).toMatch(/^orangery: \d{14}-[0-9a-f]{4}: 2 changes \(\+1 -1\), waiting for review\n/)
  expect(snapshot(place.folder)).toEqual(before)

  const { id, changeset } = await newest(place)
  expect(changeset).toEqual({ id, state: 'review', files: 2, insertions: 1, deletions: 1 })
  const shown = json<{ files: { path: string; change: string }[] }>(
    await place.orangery('changeset', 'show', id, '--json'),
  )
  expect(shown.files.map(({ path, change }) => [path, change])).toEqual([
    ['new.txt', 'added'],
    ['old.txt', 'deleted'],
  ])

  const applied = json<unknown>(await place.orangery('changeset', 'apply', id, '--all', '--json'))
  expect(applied).toMatchObject({ id, state: 'applied', skipped: [] })
  for (const how of [[], ['--all']]) {
    const again = await place.orangery('changeset', 'apply', id, ...how)
    expect(again).toMatchObject({ code: 0, stdout: `${id} is applied already: nothing is left to do\n` })
  }
  const { '/old.txt': _gone, ...rest } = before
  expect(snapshot(place.folder)).toEqual({ ...rest, '/new.txt': expect.stringMatching(/^644 /) as string })
  expect(readFileSync(join(place.folder, 'new.txt'), 'utf8')).toBe('hi\n')

  expect((await place.orangery('changeset', 'undo', id)).code).toBe(0)
  expect(snapshot(place.folder)).toEqual(before)
  expect(await leftovers(place.home)).toEqual([])
})

test('stdio passes through, and the exit code is the command’s own', async () => {
  using place = new Place('launcher')
  const ran = await place.orangeryWith(
    { input: 'in\u0000\u00ff' },
    'run',
    '--',
    'sh',
    '-c',
    'cat; echo err >&2; exit 7',
  )
  expect(ran).toEqual({ code: 7, stdout: 'in\u0000\u00ff', stderr: 'err\n' })
  expect(await newest(place)).toMatchObject({
    status: 'failed',
    exit_code: 7,
    sandbox_spec: null,
    changeset: null,
  })
})

test('a signal gives 128+n and our time limit 124, for run and for wait', async () => {
  using place = new Place('launcher')
  expect((await place.orangery('run', '--', 'sh', '-c', 'kill -TERM $$')).code).toBe(143)
  expect((await place.orangery('run', '--timeout-s', '1', '--', 'sleep', '60')).code).toBe(124)
  const { id, status, sandbox_spec } = await newest(place)
  expect(status).toBe('timeout')
  expect(sandbox_spec).toEqual({ limits: { timeout_s: 1 } })
  expect((await place.orangery('dispatch', 'wait', id)).code).toBe(124)
  expect(await leftovers(place.home)).toEqual([])
})

test('a spec is kept as it was written, unknown fields too; options amount to one', async () => {
  using place = new Place('launcher')
  const text = '{ "access_mode": "workspace-write", "colour": "orange", "max_turns": 3 }'
  writeFileSync(join(place.folder, 'spec.json'), text)
  expect((await place.orangery('run', '--sandbox-spec=@spec.json', '--', 'true')).code).toBe(0)
  expect((await newest(place)).sandbox_spec).toEqual(JSON.parse(text))
  expect((await place.orangery('run', '--level', 'os-sandboxed', '--pids', '64', '--', 'true')).code).toBe(0)
  expect((await newest(place)).sandbox_spec).toEqual({ isolation: 'os', limits: { pids: 64 } })
})

test('the summary of a run is what status prints', async () => {
  using place = new Place('launcher')
  const summary = join(place.home, 'summary.json')
  expect((await place.orangery('run', '--summary', summary, '--', 'touch', 'new')).code).toBe(0)
  expect(JSON.parse(readFileSync(summary, 'utf8'))).toEqual(await newest(place))
})

test('a spawned dispatch can be followed, waited for and ended', async () => {
  using place = new Place('launcher')
  const spawned = await place.orangery('dispatch', 'spawn', '--', 'sh', '-c', 'echo hi; touch made; exit 3')
  expect(spawned.stdout).toMatch(/^\d{14}-[0-9a-f]{4}\n$/)
  const id = spawned.stdout.trim()
  expect((await place.orangery('dispatch', 'wait', id)).code).toBe(3)
  const followed = await place.orangery('dispatch', 'events', id, '--follow', '--json')
  const lines = followed.stdout.trimEnd().split('\n')
  const types = lines.map((line) => (JSON.parse(line) as { event: { type: string } }).event.type)
  expect(types.at(0)).toBe('DispatchStarting')
  expect(types.at(-1)).toBe('DispatchEnded')
  const listed = json<unknown[]>(await place.orangery('dispatch', 'events', id, '--json'))
  expect(listed).toHaveLength(lines.length)

  const sleeping = json<{ id: string }>(
    await place.orangery('dispatch', 'spawn', '--json', '--', 'sleep', '600'),
  )
  const waiting = place.orangery('dispatch', 'wait', sleeping.id, '--json')
  expect((await place.orangery('dispatch', 'kill', sleeping.id)).code).toBe(0)
  const waited = await waiting
  expect(waited.code).toBe(137)
  expect(json<Status>(waited).status).toBe('cancelled')
  expect(await leftovers(place.home)).toEqual([])
})

test('spawn with --wait ends with the command’s code', async () => {
  using place = new Place('launcher')
  const waited = await place.orangery('dispatch', 'spawn', '--wait', '--json', '--', 'sh', '-c', 'exit 9')
  expect(waited.code).toBe(9)
  expect(json<Status>(waited)).toMatchObject({ status: 'failed', exit_code: 9 })
})

test('a diff for a program is what git apply takes, whatever bytes are in it', async () => {
  using place = new Place('launcher')
  await place.orangery('run', '-q', '--', 'bash', '-c', String.raw`printf 'caf\xe9\n' > $'n\xffme\nx'`)
  const { id } = await newest(place)
  const child = place.start({}, 'changeset', 'diff', id)
  const chunks: Buffer[] = []
  for await (const chunk of child.stdout) chunks.push(chunk as Buffer)
  const diff = Buffer.concat(chunks)
  expect(diff.includes(Buffer.from('+caf\xe9\n', 'latin1'))).toBe(true)
  expect(diff.toString('latin1')).toContain(String.raw`"b/n\377me\nx"`)
  const shown = await place.orangery('changeset', 'show', id)
  expect(shown.stdout).not.toContain('me\nx')
  const { files } = json<{ files: { path_b64: string }[] }>(
    await place.orangery('changeset', 'show', id, '--json'),
  )
  expect(files[0]?.path_b64).toBe(Buffer.from('n\xffme\nx', 'latin1').toString('base64'))
})

test('a reader that has seen enough ends a command silently', async () => {
  using place = new Place('launcher')
  await place.orangery('run', '-q', '--', 'sh', '-c', 'seq 200000 > many')
  const { id } = await newest(place)
  const ran = await place.orangeryWith(
    { through: ['sh', '-c', '"$@" | head -n 1', 'sh'] },
    'changeset',
    'diff',
    id,
  )
  expect(ran).toMatchObject({ code: 0, stderr: '' })
  expect(ran.stdout.split('\n')).toHaveLength(2)
})

test('what tools leave in the home is there for the next run of the agent whose card keeps it, for no other, and is never landed', async () => {
  using place = new Place('launcher')
  const cards = join(place.home, 'config', 'orangery', 'agents')
  mkdirSync(cards, { recursive: true })
  for (const [id, home] of [
    ['keeping', 'keep'],
    ['other', 'keep'],
    ['forgetting', 'fresh'],
  ]) {
    const card = { id, name: id, command: ['sh', '-c', '{prompt}'], sandboxRequirements: { home } }
    writeFileSync(join(cards, `${id}.json`), JSON.stringify(card))
  }
  const before = Object.keys(snapshot(place.folder))
  const leave = 'ls -A ~; mkdir -p ~/.npm ~/.uv; echo left >~/.npm/cached'
  const runs = ['keeping', 'keeping', 'forgetting', 'forgetting', 'other']
  const seen: string[] = []
  for (const agent of runs) {
    const ran = await place.orangery('run', '--agent', agent, '--prompt', leave)
    expect(ran).toMatchObject({ code: 0, stderr: '' })
    seen.push(ran.stdout)
  }
  expect(Object.keys(snapshot(place.folder))).toEqual(before)
  expect(seen).toEqual(['', '.npm\n.uv\n', '', '', ''])
})
