import { mkdir, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { expect, test } from 'vitest'
import type { EventBody, LoggedEvent } from '../../../shared/events.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import { fromText } from '../bytePath.ts'
import { callsOf, provenanceOf } from './provenance.ts'
import { Bench } from '../testing.ts'

const dispatch = '20260128120500-b7c9' as DispatchId
const logged = (events: readonly (readonly [number, EventBody])[]): LoggedEvent[] =>
  events.map(([ms, event], at) => ({
    seq: at + 1,
    at: new Date(ms).toISOString(),
    prev: '',
    hash: '',
    event,
  }))
const call = (id: string, input: unknown, title = ''): EventBody => ({
  type: 'ToolCall',
  id,
  tool: 'Edit',
  title,
  input,
})
const result = (id: string): EventBody => ({ type: 'ToolResult', id, ok: true, text: '' })
const start: EventBody = { type: 'DispatchStarting', level: 1, command: ['agent', 'go on'], roots: [] }

test('a hunk is the work of the call that was under way, and certainly so only if that one names the file and is alone', () => {
  const calls = callsOf(
    logged([
      [0, start],
      [1000, call('a', { file: 'src/a.ts' })],
      [2000, result('a')],
      [5000, call('b', { command: 'make' }, 'make')],
      [6000, call('c', { file: 'c.ts' })],
      [7000, result('b')],
      [8000, result('c')],
    ]),
    dispatch,
  )
  const of = (path: string, ms: number) => provenanceOf(calls, { root: '/r', path: fromText(path) }, ms)
  expect(of('src/a.ts', 1500)).toMatchObject({ seq: 2, certain: true, dispatch })
  expect(of('other.ts', 1500)).toMatchObject({ seq: 2, certain: false })
  // Two calls at once: the one that names it, and never for certain.
  expect(of('c.ts', 6500)).toMatchObject({ seq: 5, certain: false })
  expect(of('c.ts', 7600)).toMatchObject({ seq: 5, certain: true })
  // Between two calls only the command itself was under way.
  expect(of('a.ts', 3000)).toMatchObject({ seq: 1, title: "agent 'go on'", certain: false })
  expect(of('a.ts', -5000)).toBeNull()
})

test('a call is certain to have written a file only where it was given just that path', () => {
  const of = (path: string, ...inputs: unknown[]) => {
    const events = inputs.map((input, at): [number, EventBody] => [1000, call(String(at), input)])
    return provenanceOf(callsOf(logged(events), dispatch), { root: '/r', path: fromText(path) }, 2000)
  }
  expect(of('b/index.ts', { file: 'a/index.ts' })?.certain).toBe(false)
  expect(of('src/t', { command: 'npm test' })?.certain).toBe(false)
  expect(of('test', { command: 'npm test' })?.certain).toBe(false)
  expect(of('b/index.ts', { command: 'cd a && cat b/index.ts' })?.certain).toBe(false)
  expect(of('b/index.ts', { file: 'index.ts' })?.certain).toBe(false)
  expect(of('b/index.ts', { file: '/elsewhere/b/index.ts' })?.certain).toBe(false)
  for (const file of ['b/index.ts', './b/index.ts', '/r/b/index.ts'])
    expect(of('b/index.ts', { edits: [{ file }] })?.certain).toBe(true)
  // Of several at once the likeliest is the one that names the file, and not one that names another of that name.
  const both = [{ command: 'sed -i s/a/b/ b/index.ts' }, { file: 'a/index.ts' }]
  expect(of('b/index.ts', ...both)).toMatchObject({ seq: 1, certain: false })
})

test('a changeset says for each hunk which call wrote it, also when a later one changed the same file', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 40 > f')
  const workspace = await bench.workspace()
  const log = bench.layout.events(workspace.repoId, workspace.id)
  await mkdir(dirname(log), { recursive: true })
  const events: [number, EventBody][] = []
  const write = async (id: string, script: string) => {
    events.push([Date.now(), call(id, { path: 'f' }, `edit ${id}`)])
    await bench.agent(workspace, script)
    events.push([Date.now(), result(id)])
    await bench.changesets.capture(workspace, { final: false })
    // Further apart than the clocks may be.
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
  await write('first', 'sed -i s/^5$/five/ f')
  await write('second', 'sed -i s/^35$/thirty-five/ f')
  await bench.changesets.capture(workspace, { final: true })
  await writeFile(
    log,
    logged(events)
      .map((event) => `${JSON.stringify(event)}\n`)
      .join(''),
  )
  const [file] = (await bench.changesets.get(workspace.id)).files
  expect(file?.hunks.map((hunk) => [hunk.provenance?.title, hunk.provenance?.certain])).toEqual([
    ['edit first', true],
    ['edit second', true],
  ])
  expect(file?.provenance?.title).toBe('edit second')
})
