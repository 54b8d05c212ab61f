import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { makeDispatchId } from '../../../shared/ids.ts'
import type { Workspace } from '../../base/workspace.ts'
import { claimCopying } from './claim.ts'
import { Ground } from '../fixture.ts'
import {
  checkWriterAbove,
  claimLanding,
  claimWorkspace,
  identifyProject,
  listRunning,
  prepareWorkspace,
} from '../index.ts'

let ground: Ground
beforeEach(async () => {
  ground = await Ground.make()
})
afterEach(() => ground[Symbol.asyncDispose]())

const newId = () => makeDispatchId(new Date(), randomBytes(2))
async function prepare(root: string, driver: 'kernel-overlay' | 'plain-copy' = 'kernel-overlay') {
  return prepareWorkspace({
    id: newId(),
    project: await identifyProject([root]),
    strategy: driver === 'plain-copy' ? 'clone' : 'overlay',
    driver,
    layout: ground.layout,
    name: null,
    runner: 'command',
    mode: 'headless',
  })
}

/** A supervisor of another process that holds a workspace. */
async function otherRunner(workspace: Workspace) {
  const script = `
    import { claimWorkspace } from ${JSON.stringify(join(import.meta.dirname, '../index.ts'))}
    import { layout } from ${JSON.stringify(join(import.meta.dirname, '../../base/paths.ts'))}
    globalThis.held = await claimWorkspace(layout(${JSON.stringify(ground.layout.dataDir)}), ${JSON.stringify(workspace)})
    process.stdout.write('held')
    setInterval(() => {}, 1000)
  `
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  return child
}

test('one workspace carries one runner: a second claim is refused, here and in another process', async () => {
  const workspace = await prepare(await ground.folder('root'))
  {
    await using _held = await claimWorkspace(ground.layout, workspace)
    await expect(claimWorkspace(ground.layout, workspace, { timeoutMs: 0 })).rejects.toMatchObject({
      code: 'workspace.in_use',
      kind: 'busy',
    })
  }
  const child = await otherRunner(workspace)
  await expect(claimWorkspace(ground.layout, workspace, { timeoutMs: 0 })).rejects.toMatchObject({
    kind: 'busy',
  })
  child.kill('SIGKILL')
  await once(child, 'exit')
  await using held = await claimWorkspace(ground.layout, workspace, { timeoutMs: 0 })
  expect(held).toBeDefined()
})

test('nothing lands in a folder while another agent runs on it, and a kill -9 of its supervisor frees it', async () => {
  const root = await ground.folder('root')
  const running = await prepare(root)
  const child = await otherRunner(running)
  const landing = { id: newId(), paths: [join(root, 'sub')] }
  await expect(claimLanding(ground.layout, landing)).rejects.toMatchObject({
    code: 'workspace.agent_running',
    exitCode: 75,
    details: { running: running.id },
  })
  expect((await listRunning(ground.layout)).map(({ id }) => id)).toEqual([running.id])
  child.kill('SIGKILL')
  await once(child, 'exit')
  await using held = await claimLanding(ground.layout, landing)
  expect(held).toBeDefined()
  expect(await listRunning(ground.layout)).toEqual([])
})

test('nothing lands while an agent runs whose record cannot be read: nobody can say what it looks at', async () => {
  const root = await ground.folder('root')
  const running = await prepare(root)
  const landing = { id: newId(), paths: [root] }
  {
    await using _held = await claimWorkspace(ground.layout, running)
    await writeFile(ground.layout.invocationMeta(running.repoId, running.id), '{')
    await expect(claimLanding(ground.layout, landing)).rejects.toMatchObject({
      code: 'workspace.agent_running',
      details: { running: running.id },
    })
  }
  await using held = await claimLanding(ground.layout, landing)
  expect(held).toBeDefined()
})

test('an agent does not start on half of a landing: it waits until the landing is done', async () => {
  const root = await ground.folder('root')
  const workspace = await prepare(root)
  const landing = await claimLanding(ground.layout, { id: newId(), paths: [root] })
  await expect(claimWorkspace(ground.layout, workspace, { timeoutMs: 30 })).rejects.toMatchObject({
    code: 'workspace.landing',
  })
  const waiting = claimWorkspace(ground.layout, workspace)
  await landing[Symbol.asyncDispose]()
  await using held = await waiting
  expect(held).toBeDefined()
})

test('an agent on other folders, on a copy, or the landing agent itself does not hold a landing up', async () => {
  const root = await ground.folder('root')
  const [elsewhere, copy, own] = [
    await prepare(await ground.folder('rootling')),
    await prepare(root, 'plain-copy'),
    await prepare(root),
  ]
  await using _one = await claimWorkspace(ground.layout, elsewhere)
  await using _two = await claimWorkspace(ground.layout, copy)
  await using _three = await claimWorkspace(ground.layout, own)
  await using held = await claimLanding(ground.layout, { id: own.id, paths: [root] })
  expect(held).toBeDefined()
})

test('a copy is not made of half of a landing: it waits for one under way, and none begins while it is made', async () => {
  const root = await ground.folder('root')
  await writeFile(join(root, 'first'), 'old')
  const landing = await claimLanding(ground.layout, { id: newId(), paths: [root] })
  await writeFile(join(root, 'first'), 'new')
  const making = prepare(root, 'plain-copy')
  await sleep(100)
  await writeFile(join(root, 'last'), 'new')
  await landing[Symbol.asyncDispose]()
  const copy = (await making).roots[0]?.mount
  const source = copy?.kind === 'bind' ? copy.source : ''
  for (const name of ['first', 'last']) expect(await readFile(join(source, name), 'utf8')).toBe('new')

  const { repoId } = await identifyProject([root])
  const id = newId()
  {
    await using _copying = await claimCopying(ground.layout, { repoId, id }, [root])
    await expect(
      claimLanding(ground.layout, { id: newId(), paths: [join(root, 'sub')] }),
    ).rejects.toMatchObject({
      code: 'workspace.agent_running',
      details: { running: id },
    })
    // Those who only look do not wait for each other.
    await using _other = await claimWorkspace(ground.layout, await prepare(root), { timeoutMs: 0 })
  }
  await using held = await claimLanding(ground.layout, { id: newId(), paths: [root] })
  expect(held).toBeDefined()
})

test('two landings on one folder follow each other', async () => {
  const root = await ground.folder('root')
  const first = await claimLanding(ground.layout, { id: newId(), paths: [root] })
  const second = claimLanding(ground.layout, { id: newId(), paths: [root] }, { timeoutMs: 5000 })
  await first[Symbol.asyncDispose]()
  await using held = await second
  expect(held).toBeDefined()
})

test('claims leave no files behind', async () => {
  const workspace = await prepare(await ground.folder('root'))
  {
    await using _held = await claimWorkspace(ground.layout, workspace)
  }
  await prepare(await ground.folder('root'), 'plain-copy')
  expect(await readdir(ground.layout.locks)).toEqual([])
})

test('landings in two worktrees of one repository need not wait for each other, and an agent on it waits for both', async () => {
  const repo = await ground.repo('repo')
  const repositories = [join(repo, '.git')]
  const workspace = await prepare(repo)
  const landings = ['one', 'two'].map((name) => ({ id: newId(), paths: [ground.path(name)], repositories }))
  const [first, second] = [
    await claimLanding(ground.layout, landings[0]!),
    await claimLanding(ground.layout, landings[1]!),
  ]
  for (const landing of [first, second]) {
    await expect(claimWorkspace(ground.layout, workspace, { timeoutMs: 0 })).rejects.toMatchObject({
      code: 'workspace.landing',
    })
    await landing[Symbol.asyncDispose]()
  }
  await using _running = await claimWorkspace(ground.layout, workspace, { timeoutMs: 0 })
  await expect(claimLanding(ground.layout, landings[0]!)).rejects.toMatchObject({
    code: 'workspace.agent_running',
  })
})

test('below a folder whose real files an agent writes nothing else starts, until that has ended or was killed', async () => {
  const above = await ground.folder('shop')
  const at = (path: string) => checkWriterAbove(ground.layout, [{ path }])
  const workspace = { ...(await prepare(above)), strategy: 'none' as const }
  const runner = await otherRunner(workspace)
  expect(await at(join(above, 'inner'))).toMatchObject([
    { ok: false, detail: expect.stringContaining(workspace.id) as string },
  ])
  // What it may write it may not move; and what lies elsewhere it cannot reach.
  expect(await at(above)).toEqual([])
  expect(await at(`${above}-other`)).toEqual([])
  runner.kill('SIGKILL')
  await once(runner, 'exit')
  expect(await at(join(above, 'inner'))).toEqual([])
  {
    await using _overlay = await claimWorkspace(ground.layout, await prepare(above))
    expect(await at(join(above, 'inner'))).toEqual([])
  }
  expect((await readdir(ground.layout.locks)).filter((name) => name.startsWith('real-'))).toEqual([])
})
