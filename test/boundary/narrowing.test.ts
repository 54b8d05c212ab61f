import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { renderState } from '../../src/cli/commands/boundary.render.ts'
import type { EventBody } from '../../src/shared/events.ts'
import type { BoundaryState } from '../../src/shared/escalation.ts'
import { waitUntil } from '../dispatch/harness.ts'
import { call, ended, events, gated, project, requests, says, spawn, useGround, user } from './ground.ts'

useGround()

test('a running agent that is narrowed cannot write any more, be its config spoilt meanwhile', async () => {
  const id = await spawn(
    'n=0; while echo $n > counter.txt 2>/dev/null; do n=$((n+1)); echo wrote; sleep 0.1; done; echo stopped',
  )
  await says(id, 'wrote')
  await writeFile(join(project, '.orangery.json'), '{')
  const state = await call().call('boundary.narrow', { id, to: 'readonly', reason: 'enough' })
  expect(state).toMatchObject({
    level: 'readonly',
    history: [{ from: 'readwrite', to: 'readonly', way: 'narrowed' }],
  })
  await says(id, 'stopped')
  expect(await ended(id)).toMatchObject({ status: 'completed', boundary: 'readonly' })
})

test('narrowing an agent narrows its running children at once', async () => {
  const writes = 'while echo x > x.txt 2>/dev/null; do echo wrote; sleep 0.1; done; echo stopped'
  const parent = await spawn(writes)
  await says(parent, 'wrote')
  const child = await spawn(writes, null, { parent })
  await says(child, 'wrote')
  await call().call('boundary.narrow', { id: parent, to: 'readonly', reason: 'enough' })
  for (const id of [parent, child]) {
    await says(id, 'stopped')
    expect(await ended(id)).toMatchObject({ status: 'completed', boundary: 'readonly' })
  }
  expect(await call().call('boundary.show', { id: child })).toMatchObject({
    history: [{ to: 'readonly', way: 'narrowed', why: `its parent ${parent} was narrowed: enough` }],
  })
})

test('a project whose file lowers the maximum narrows the children, too, that stand in a repository of their own', async () => {
  const writes = 'while echo x > x.txt 2>/dev/null; do echo wrote; sleep 0.1; done; echo stopped'
  const inner = join(project, 'inner')
  await mkdir(join(inner, '.git'), { recursive: true })
  const parent = await spawn(writes)
  await says(parent, 'wrote')
  const child = await spawn(writes, null, { parent, roots: [inner] })
  await says(child, 'wrote')
  await writeFile(join(project, '.orangery.json'), '{ "sandboxMaximumBoundary": "readonly" }')
  for (const id of [parent, child]) {
    await says(id, 'stopped')
    expect(await ended(id)).toMatchObject({ status: 'completed', boundary: 'readonly' })
  }
})

test('a config that lowers the maximum narrows a running agent at once', async () => {
  const id = await spawn('while echo x > x.txt 2>/dev/null; do echo wrote; sleep 0.1; done; echo stopped')
  await says(id, 'wrote')
  await user({ sandboxMaximumBoundary: 'readonly' })
  await says(id, 'stopped')
  expect(await ended(id)).toMatchObject({ boundary: 'readonly' })
})

test('a level that a trusted project gave its builds goes at once with the trust in it, and the record says why', async () => {
  await writeFile(join(project, '.orangery.json'), '{ "sandboxBoundaries": { "build": "full" } }')
  const { sha256 } = await call().call('config.question', { root: project })
  await call().call('config.trust', { root: project, sha256 })
  const id = await spawn('$ORANGERY_ASK show; echo begun; sleep 60', { phase: 'build' })
  await says(id, 'begun')
  expect(await call().call('boundary.show', { id })).toMatchObject({ level: 'full' })
  await call().call('config.trust', { root: project, sha256: null })
  const isNarrowed = (event: EventBody) =>
    event.type === 'BoundaryEscalated' && event.from === 'full' && event.to === 'readwrite'
  await waitUntil('it is narrowed', async () => (await events(id)).some(isNarrowed), 30_000)
  expect((await events(id)).find(isNarrowed)).toMatchObject({
    by: 'config',
    why: expect.stringContaining('the config that is trusted now gives its phase readwrite') as string,
  })
  await call().call('dispatch.kill', { id })
  expect(await ended(id)).toMatchObject({ boundary: 'readwrite' })
})

test('narrowing that a writer holds up says who, changes nothing, and leaves the network as it was', async () => {
  const script = `exec 3>held.txt; while echo x >&3; do curl -sf --max-time 5 http://registry.test:8080/x >/dev/null && echo reached; sleep 0.1; done`
  const id = await spawn(script, { ...gated(), boundary: 'network' })
  await says(id, 'reached')
  await expect(call().call('boundary.narrow', { id, to: 'readonly' })).rejects.toThrow(/held\.txt/)
  expect(await call().call('boundary.show', { id })).toMatchObject({
    level: 'network',
    history: [{ to: 'readonly' }, { to: 'network', way: 'undone', why: expect.stringContaining('held.txt') }],
  })
  const before = requests.length
  await waitUntil('it still reaches the host', () => requests.length > before, 30_000)
  await call().call('dispatch.kill', { id })
  expect((await ended(id)).sandbox_effective).toHaveProperty(
    'boundary_history',
    expect.arrayContaining([
      expect.objectContaining({
        from: 'network',
        to: 'network',
        why: expect.stringMatching(/^readonly did not take: .*held\.txt/) as string,
      }),
    ]),
  )
})

test('a narrowing that did not take is one line on record, and nowhere a change', async () => {
  const id = await spawn('exec 3>held.txt; while echo x >&3; do echo wrote; sleep 0.1; done')
  await says(id, 'wrote')
  await expect(call().call('boundary.narrow', { id, to: 'readonly' })).rejects.toThrow(/held\.txt/)
  const shown = renderState(await call().call('boundary.show', { id }))
  expect(shown).toMatch(/readwrite → readonly, did not take .*\n.*still readwrite /)
  await call().call('dispatch.kill', { id })
  expect((await ended(id)).sandbox_effective).toHaveProperty('boundary_history', [
    expect.objectContaining({ from: null, to: 'readwrite' }),
    expect.objectContaining({
      to: 'readwrite',
      why: expect.stringMatching(/^readonly did not take/) as string,
    }),
  ])
})

test('a lowered maximum closes the network of an agent that holds a file open, tells a person, and narrows its files once it lets go', async () => {
  const script =
    'exec 3>held.txt; n=0; while [ $n -lt 60 ]; do curl -sf --max-time 5 http://registry.test:8080/z >/dev/null && echo reached || { echo cut; n=$((n + 1)); }; sleep 0.1; done; ' +
    'exec 3>&-; while echo x > x.txt 2>/dev/null; do sleep 0.1; done; echo stopped'
  const id = await spawn(script, { ...gated(), boundary: 'network' })
  await says(id, 'reached')
  await user({ sandboxMaximumBoundary: 'readonly' })
  await says(id, 'cut')
  const inbox = () => call().call('boundary.inbox', {})
  await waitUntil('a person is told', async () => (await inbox()).length > 0)
  expect(await inbox()).toMatchObject([
    { dispatch: id, source: 'config', to: 'readwrite', why: expect.stringContaining('held.txt') },
  ])
  const shown = await call().call('boundary.show', { id })
  expect(shown).toMatchObject({ level: 'readwrite', hosts: [] })
  await expect(call().call('boundary.approve', { id })).rejects.toThrow(/readonly at most/)
  const reached = requests.length
  await says(id, 'stopped')
  expect(requests.length).toBe(reached)
  await waitUntil('the notice is gone', async () => (await inbox()).length === 0)
  expect(await ended(id)).toMatchObject({ boundary: 'readonly' })
})

test('a boundary that is decided and has not taken yet is shown as such, and on record only once it took', async () => {
  const id = await spawn(
    'sh -c "exec 3>held; echo open; while :; do sleep 0.01; done" & while :; do sleep 0.1; done',
  )
  await says(id, 'open')
  const narrowing = call().call('boundary.narrow', { id, to: 'readonly' })
  let shown: BoundaryState | undefined
  await waitUntil('it is decided', async () => {
    shown = await call().call('boundary.show', { id })
    return shown.level === 'readonly'
  })
  expect(shown).toMatchObject({ level: 'readonly', in_effect: 'readwrite' })
  expect((await call().call('dispatch.get', { id })).boundary).toBe('readwrite')
  const narrowed = await narrowing
  expect(narrowed).not.toHaveProperty('in_effect')
  // Somebody's process was ended for it: who asked for that is told, and whoever looks later.
  const told = [{ to: 'readonly', why: expect.stringMatching(/^ended .*sh \(\d+\) with .*held/) as string }]
  expect(narrowed.history).toMatchObject(told)
  expect((await call().call('boundary.show', { id })).history).toMatchObject(told)
  expect((await call().call('dispatch.get', { id })).boundary).toBe('readonly')
  await call().call('dispatch.kill', { id })
  await ended(id)
})

test('a boundary that had not taken when the agent was ended is a wish on record, and no change', async () => {
  const id = await spawn('exec 3>held; echo open; while :; do sleep 0.1; done')
  await says(id, 'open')
  const narrowing = call()
    .call('boundary.narrow', { id, to: 'readonly' })
    .catch(() => {})
  await waitUntil(
    'it is decided',
    async () => (await call().call('boundary.show', { id })).level === 'readonly',
  )
  // Decided is not begun: on a busy machine its supervisor hears of it later. One that gave up by then says the same.
  await new Promise((resolve) => setTimeout(resolve, 1500))
  await call().call('dispatch.kill', { id })
  await narrowing
  expect((await ended(id)).sandbox_effective).toMatchObject({
    boundary_history: [
      { to: 'readwrite' },
      { to: 'readwrite', why: expect.stringMatching(/^readonly did not take/) },
    ],
  })
})

test('a maximum that is lowered while an agent starts holds for its files, too', async () => {
  const id = await spawn('while echo x > new.txt; do sleep 0.2; done; echo held', { boundary: 'readwrite' })
  await user({ sandboxMaximumBoundary: 'readonly' })
  await says(id, 'held')
  expect(await call().call('boundary.show', { id })).toMatchObject({
    level: 'readonly',
    history: [{ way: 'config', to: 'readonly' }],
  })
})
