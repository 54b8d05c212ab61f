import { expect, test } from 'vitest'
import {
  boundaryOf,
  emptyForm,
  fill,
  modeAt,
  modesWith,
  terminalLine,
  withoutRoot,
  type SpawnForm,
} from './form.ts'

const filled = { ...emptyForm, roots: ['/home/ada/shop'], command: 'npm test' }

test('a form left at its defaults asks for no contract at all', () => {
  expect(fill(filled)).toEqual({
    ok: true,
    input: { agent: 'command', command: ['npm', 'test'], roots: ['/home/ada/shop'] },
  })
})

test('what was chosen becomes the contract, and nothing else', () => {
  const result = fill({
    ...filled,
    level: 2,
    boundary: 'network',
    hosts: 'registry.example.com, *.example.org:443',
    memoryMb: '2048',
  })
  expect(result.ok && JSON.parse(result.input.sandbox_spec ?? '')).toEqual({
    isolation: 'container',
    boundary: 'network',
    outputs: { mode: 'restricted', allow: ['registry.example.com', '*.example.org:443'] },
    limits: { memory_mb: 2048 },
  })
})

test('every limit has a field, and the terminal says the same', () => {
  const form = { ...filled, memoryMb: '512', cpus: '0.5', pids: '64', diskMb: '100', timeoutS: '60' }
  const result = fill(form)
  expect(result.ok && JSON.parse(result.input.sandbox_spec ?? '')).toEqual({
    limits: { memory_mb: 512, cpus: 0.5, pids: 64, disk_mb: 100, timeout_s: 60 },
  })
  expect(terminalLine(form)).toContain('--memory-mb 512 --cpus 0.5 --pids 64 --disk-mb 100 --timeout-s 60')
  const wrong = fill({ ...filled, pids: '1.5', diskMb: '-1' })
  expect(wrong.ok || wrong.troubles).toEqual({
    pids: 'Give a whole number of processes, as in 512.',
    diskMb: 'Give a number of megabytes, as in 2048.',
  })
  expect(wrong.ok || wrong.why).toBe('Look again at Processes, Disk.')
})

test('what is missing or wrong is said before anything is sent', () => {
  expect(fill(emptyForm)).toMatchObject({ ok: false, missing: 'folder' })
  expect(fill({ ...filled, command: ' ' })).toMatchObject({ ok: false, missing: 'command' })
})

test('what is wrong is said at its field, in the words of the form', () => {
  const wrong = fill({ ...filled, roots: ['shop'], cpus: 'many', hosts: 'ok.example foo/bar', timeoutS: '0' })
  if (wrong.ok) throw new Error('it was taken')
  expect(Object.keys(wrong.troubles)).toEqual(['folder', 'hosts', 'cpus', 'timeoutS'])
  expect(wrong.troubles.hosts).toContain('foo/bar is no host')
  expect(wrong.why).toBe('Look again at Folder, Hosts it may reach, CPUs, Time.')
  expect(Object.values(wrong.troubles).join()).not.toContain('--')
  expect(fill({ ...filled, hosts: 'a.example db.test:5432=127.0.0.1:5432 @npm', cpus: '0.5' }).ok).toBe(true)
})

test('naming hosts opens the network, and a narrower boundary is asked for by its name', () => {
  const spec = (form: SpawnForm) => {
    const result = fill(form)
    return result.ok
      ? (JSON.parse(result.input.sandbox_spec ?? 'null') as { boundary?: string } | null)
      : null
  }
  const hosts = { ...filled, hosts: 'registry.example.com' }
  expect([boundaryOf(filled), boundaryOf(hosts)]).toEqual(['readwrite', 'network'])
  expect(spec(hosts)).not.toHaveProperty('boundary')
  expect(spec({ ...hosts, boundary: 'readwrite' })).toHaveProperty('boundary', 'readwrite')
  expect(spec({ ...filled, boundary: 'readwrite' })).toBeNull()
  expect(terminalLine({ ...hosts, boundary: 'readwrite' })).toContain('--boundary readwrite')
})

test('the line for a terminal says the same', () => {
  expect(terminalLine({ ...filled, level: 0, command: 'make && echo done', name: "Ada's" })).toBe(
    String.raw`orangery run --dir /home/ada/shop --level 0 --name 'Ada'\''s' -- sh -c 'make && echo done'`,
  )
  expect(terminalLine({ ...filled, agent: 'claude', prompt: 'fix it' })).toBe(
    "orangery dispatch spawn --agent=claude --dir /home/ada/shop --prompt 'fix it'",
  )
})

test('a worktree is named before anything is checked, and passed on by its id', () => {
  const form = { ...emptyForm, roots: ['/home/ada/shop'], command: 'make', changeset: 'worktree' as const }
  expect(fill(form)).toMatchObject({ ok: false, missing: 'worktree' })
  const filled = fill({ ...form, worktree: '20260128120500-b7c9' })
  expect(filled).toMatchObject({ ok: true, input: { worktree: '20260128120500-b7c9' } })
  expect(terminalLine({ ...form, worktree: '20260128120500-b7c9' })).toContain(
    '--worktree 20260128120500-b7c9',
  )
})

test('a folder of several may be one that it only reads, or does not see, and the terminal says the same', () => {
  const form: SpawnForm = { ...filled, roots: ['/a/shop', '/a/docs/', '/a/keys'], rootModes: ['rw', 'ro'] }
  const hidden = { ...form, rootModes: modesWith(form, 2, 'hidden') }
  const result = fill(hidden)
  expect(result.ok && JSON.parse(result.input.sandbox_spec ?? '')).toEqual({
    root_modes: { '/a/docs': 'ro', '/a/keys': 'hidden' },
  })
  expect(terminalLine(hidden)).toContain('--root-mode /a/docs=ro --root-mode /a/keys=hidden')
  expect({ ...hidden, ...withoutRoot(hidden, 1) }).toMatchObject({
    roots: ['/a/shop', '/a/keys'],
    rootModes: ['rw', 'hidden'],
  })
  expect([modeAt(form, 0), modeAt(filled, 0)]).toEqual(['rw', undefined])
})
