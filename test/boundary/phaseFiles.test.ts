import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createEngine } from '../../src/engine/index.ts'
import { killSupervisor, processesWith, waitUntil } from '../dispatch/harness.ts'
import { base, call, ended, project, says, spawn, useGround } from './ground.ts'

useGround()

/** Past the first looks at what a running agent has written. */
const looks = 'echo up; sleep 2; echo looked; sleep 60'

/** Kills whoever runs it, and gives what another host makes of it. */
async function crashed(id: string) {
  await killSupervisor(join(base, 'data'))
  await waitUntil('it is gone', async () => (await processesWith(join(base, 'data'))).length === 0)
  const next = await createEngine({ dataDir: join(base, 'data'), host: 'command-line' })
  try {
    await waitUntil(
      'it is recovered',
      async () => (await next.client.call('dispatch.get', { id })).ended_at !== null,
    )
    return await next.client.call('dispatch.get', { id })
  } finally {
    await next.close()
  }
}

const sandboxes = async () =>
  (await readdir(join(base, 'data/repos'), { recursive: true })).filter((path) => path.endsWith('/upper'))

test.each([
  ['plan', 'overlay'],
  ['learn', 'overlay'],
  ['plan', 'clone'],
] as const)(
  'the file that a %s may write is no change in a workspace of kind %s until it is written, while it runs and after a crash',
  async (phase, changeset) => {
    const id = await spawn(looks, { changeset }, { phase })
    await says(id, 'looked')
    expect((await call().call('dispatch.get', { id })).changeset).toBeNull()
    await expect(call().call('changeset.peek', { id })).resolves.toEqual([])
    expect(await crashed(id)).toMatchObject({ status: 'interrupted', changeset: null })
    expect(await sandboxes()).toEqual([])
    expect(await readdir(project)).toEqual(['old.txt'])
  },
)

test('what a plan wrote into its file before a crash goes to review', async () => {
  const id = await spawn(`echo one > TODO.md; ${looks}`, null, { phase: 'plan' })
  await says(id, 'looked')
  expect((await call().call('dispatch.get', { id })).changeset).toMatchObject({ files: 1 })
  expect(await crashed(id)).toMatchObject({ status: 'interrupted', changeset: { state: 'review', files: 1 } })
  const { files } = await call().call('changeset.get', { id })
  expect(files.map(({ path }) => path)).toEqual(['TODO.md'])
})

test('a file that the user makes while a plan runs is not emptied by the one that stands in its place', async () => {
  const id = await spawn('echo up; sleep 3', null, { phase: 'plan' })
  await says(id, 'up')
  await writeFile(join(project, 'TODO.md'), 'mine\n')
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  expect((await call().call('dispatch.get', { id })).changeset).toBeNull()
  expect(await ended(id)).toMatchObject({ changeset: null })
  expect(await readFile(join(project, 'TODO.md'), 'utf8')).toBe('mine\n')
})
