import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'
import { openStore } from '../../src/engine/store/index.ts'
import { aDispatch } from '../../src/engine/store/testing.ts'

/** Numbers that JSON.parse and JSON.stringify make others of. */
const numbers = '"n":[123456789012345678901234567890,1e400,-0,1.0,1E2],"big":1e400,"later":{"x":1.50}'

async function recorded(place: Place, sandboxSpec: string): Promise<string> {
  await using store = await openStore(place.dataDir)
  const dispatch = aDispatch({ sandboxSpec })
  store.dispatches.create({ ...dispatch, status: 'preflight_failed', error: 'only a row' })
  return dispatch.id
}

test('status --json holds the spec as it was given, numbers no program can hold included', async () => {
  using place = new Place('launcher')
  const spec = `{ "access_mode":"read-only",\n${numbers}, "note":1, "note":2 }`
  const id = await recorded(place, ` ${spec}\n`)
  const json = await place.orangery('dispatch', 'status', id, '--json')
  expect(json.stderr).toBe('')
  expect(json.stdout).toContain(`"sandbox_spec": ${spec}`)
  expect(JSON.parse(json.stdout)).toMatchObject({ id, sandbox_spec: { access_mode: 'read-only', note: 2 } })
  const waited = await place.orangery('dispatch', 'wait', id, '--json')
  expect(waited.stdout).toBe(json.stdout)
})

test('status for people leaves no number out and shows each as it was written', async () => {
  using place = new Place('launcher')
  const id = await recorded(place, `{"max_turns":5.0,"limits":{"timeout_s":6e1},${numbers}}`)
  const { stdout } = await place.orangery('dispatch', 'status', id)
  expect(stdout).toMatch(/^ {2}big\s+1e400/m)
  expect(stdout).toMatch(/^ {2}n\s+\[123456789012345678901234567890,1e400,-0,1\.0,1E2\]/m)
  expect(stdout).toMatch(/^ {2}later\s+\{"x":1\.50\}/m)
  expect(stdout).toMatch(/^ {2}max_turns\s+at most 5/m)
  expect(stdout).toMatch(/^ {2}limits\.timeout_s\s+at most 60 s/m)
})

test('what another program left as a spec is shown, whatever it is', async () => {
  using place = new Place('launcher')
  const id = await recorded(place, 'workspace-write')
  const { stdout } = await place.orangery('dispatch', 'status', id, '--json')
  expect(JSON.parse(stdout)).toMatchObject({ sandbox_spec: 'workspace-write' })
  const odd = await recorded(
    place,
    '{"tools_allowed":[1e400],"outputs":{"allow":[1.0]},"limits":{"gpus":1e400}}',
  )
  const shown = await place.orangery('dispatch', 'status', odd)
  expect(shown.stderr).toBe('')
  expect(shown.stdout).toMatch(/^ {2}tools_allowed\s+Infinity/m)
  expect(shown.stdout).toMatch(/^ {2}limits\.gpus\s+1e400/m)
})

test('a spec on the command line that is not UTF-8 is bad input; the character that stands for such is not', async () => {
  using place = new Place('launcher')
  const spelled = (bytes: string, form: '=' | '" "') => [
    'sh',
    '-c',
    `exec "$@" "--sandbox-spec${form}$(printf '{"x":"${bytes}"}')" -- true`,
    'sh',
  ]
  for (const form of ['=', '" "'] as const) {
    const bad = await place.orangeryWith({ through: spelled('\\377', form) }, 'preflight')
    expect(bad.stderr).toMatch(/^orangery: --sandbox-spec: not UTF-8 text\n {2}hint: [^\n]+\n$/)
    expect(bad.code).toBe(65)
    const good = await place.orangeryWith({ through: spelled('\\357\\277\\275', form) }, 'preflight')
    expect([0, 69], good.stderr).toContain(good.code)
  }
})
