import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Ground, gitText } from '../../src/engine/workspace/fixture.ts'
import {
  createWorktree,
  discardAgent,
  findOrphans,
  listAgents,
  listWorktrees,
  removeIntegration,
  restoreArchived,
  startAgent,
} from '../../src/engine/workspace/index.ts'
import { restoreSteps } from '../../src/engine/workspace/end/reattach.ts'
import { creationSteps } from '../../src/engine/workspace/make/startAgent.ts'
import { worktreeSteps } from '../../src/engine/workspace/make/worktree.ts'
import type { DispatchId, RepoId } from '../../src/shared/ids.ts'

let ground: Ground
let repo: string
beforeEach(async () => {
  ground = await Ground.make()
  repo = await ground.repo('repo')
  await createWorktree({ layout: ground.layout, repo, name: 'feature' })
})
afterEach(() => ground[Symbol.asyncDispose]())

const gitPath = async () => (await promisify(execFile)('which', ['git'])).stdout
const source = join(import.meta.dirname, '..', '..', 'src', 'engine')

/** Runs a piece of the engine in a process that kills itself with SIGKILL when the piece says so. */
async function dieDuring(body: string, env: Readonly<Record<string, string>> = {}): Promise<void> {
  const script = `
    import * as workspace from ${JSON.stringify(join(source, 'workspace', 'index.ts'))}
    import { layout as layoutAt } from ${JSON.stringify(join(source, 'base', 'paths.ts'))}
    const layout = layoutAt(${JSON.stringify(ground.layout.dataDir)})
    const die = () => new Promise(() => process.kill(process.pid, 'SIGKILL'))
    ${body}
  `
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: 'inherit',
    env: { ...process.env, ...env },
  })
  expect((await once(child, 'exit'))[1]).toBe('SIGKILL')
}

test.each(creationSteps)(
  "kill -9 after %s leaves something that is shown, resolvable, archivable and in nobody's way",
  async (step) => {
    await dieDuring(
      `await workspace.startAgent({ layout, worktree: 'feature', afterStep: (done) => done === '${step}' ? die() : undefined })`,
    )
    // The lock died with its holder.
    const next = await startAgent({ layout: ground.layout, worktree: 'feature' })
    expect(next.status).toBe('starting')
    const agents = await listAgents(ground.layout, { all: true })
    const left = agents.find(({ id }) => id !== next.invocation_id)
    if (step === 'meta') {
      // Past the commit point: it is an invocation like any other.
      expect(left).toMatchObject({ broken: false })
      return
    }
    expect(left).toMatchObject({ broken: true, meta: null })
    expect((await listAgents(ground.layout)).map(({ id }) => id)).not.toContain(left!.id)
    const orphans = await findOrphans(ground.layout)
    expect(orphans.map(({ id }) => id)).toContain(left!.id)
    await discardAgent(ground.layout, left!.id)
    expect(await gitText(repo, 'branch', '--list', `agency/sandbox-${left!.id}`)).toBe('')
    expect(await gitText(repo, 'worktree', 'list')).not.toContain(left!.id)
  },
)

test.each(worktreeSteps)(
  "kill -9 of worktree create after %s leaves a tree that is shown, endable by its id, restorable and in nobody's way",
  async (step) => {
    const { layout } = ground
    await dieDuring(
      `await workspace.createWorktree({ layout, repo: ${JSON.stringify(repo)}, name: 'second', afterStep: (done) => done === '${step}' ? die() : undefined })`,
    )
    const left = (await listWorktrees(layout, { all: true })).find(({ meta }) => meta?.name !== 'feature')
    if (step === 'meta') {
      // Past the commit point: it is a worktree like any other.
      expect(left).toMatchObject({ broken: false })
      return
    }
    expect(left).toMatchObject({ broken: true, meta: null })
    const id = left!.id as DispatchId
    expect(await findOrphans(layout)).toMatchObject([
      { kind: 'worktree_without_record', id, hint: `orangery worktree rm ${id} --force` },
    ])
    expect((await createWorktree({ layout, repo, name: 'second' })).name).toBe('second')
    const branches = () => gitText(repo, 'branch', '--list', `agency/second-${id.slice(-4)}`)
    const wasBranch = await branches()
    // Whatever somebody did there meanwhile is not lost with it.
    const work = join(layout.worktreeTree(left!.repo_id as RepoId, id), 'work.txt')
    if (step !== 'folder') {
      await writeFile(work, 'work')
      const refused = removeIntegration(layout, id)
      await expect(refused).rejects.toMatchObject({
        kind: 'refused',
        message: expect.stringContaining('work.txt'),
      })
    }
    for (let round = 0; round < 2; round += 1) {
      await removeIntegration(layout, id, { force: true })
      expect(await branches()).toBe('')
      expect(await gitText(repo, 'worktree', 'list')).not.toContain(id)
      expect(await listWorktrees(layout, { all: true })).not.toContainEqual(expect.objectContaining({ id }))
      expect(await findOrphans(layout)).toEqual([])
      await restoreArchived(layout, id)
      expect((await branches()).slice(2)).toBe(wasBranch.slice(2))
      expect((await listWorktrees(layout, { all: true })).find((each) => each.id === id)).toEqual(left)
      if (step !== 'folder') expect(await readFile(work, 'utf8')).toBe('work')
    }
  },
)

test.each(['startAgent', 'createWorktree'] as const)(
  'kill -9 of %s between tree and branch while it is taken back leaves a branch that the end of it takes along',
  async (what) => {
    const { layout } = ground
    // The first of its repository: nothing else says where the branch is.
    const alone = what === 'createWorktree' ? await ground.repo('alone') : repo
    const real = (await gitPath()).trim()
    const bin = join(ground.layout.dataDir, '..', 'bin')
    await mkdir(bin)
    const dying = `#!/bin/sh\ncase " $* " in *" update-ref -d "*) kill -9 $PPID; exit 1;; esac\nexec '${real}' "$@"\n`
    await writeFile(join(bin, 'git'), dying, { mode: 0o755 })
    const fails = `afterStep: (done) => { if (done === 'marker') throw new Error('injected') }`
    const which =
      what === 'startAgent' ? `worktree: 'feature'` : `repo: ${JSON.stringify(alone)}, name: 'second'`
    await dieDuring(`await workspace.${what}({ layout, ${which}, ${fails} })`, {
      PATH: `${bin}:${process.env['PATH']}`,
    })
    const pattern = what === 'startAgent' ? 'agency/sandbox-*' : 'agency/second-*'
    // The control: it is there, and its tree is not.
    expect(await gitText(alone, 'branch', '--list', pattern)).not.toBe('')
    const [orphan, ...others] = await findOrphans(layout)
    expect(orphan).toMatchObject({
      kind: what === 'startAgent' ? 'sandbox_without_record' : 'worktree_without_record',
    })
    expect(others).toEqual([])
    if (what === 'startAgent') await discardAgent(layout, orphan!.id)
    else await removeIntegration(layout, orphan!.id)
    expect(await gitText(alone, 'branch', '--list', pattern)).toBe('')
    expect(await findOrphans(layout)).toEqual([])
  },
)

test('kill -9 of the end of a broken worktree or sandbox is finished by the next attempt', async () => {
  const { layout } = ground
  const agent = await startAgent({ layout, worktree: 'feature' })
  const made = await createWorktree({ layout, repo, name: 'second' })
  await writeFile(layout.worktreeMeta(made.repo_id as RepoId, made.worktree_id), 'torn')
  await writeFile(layout.invocationMeta(made.repo_id as RepoId, agent.invocation_id), 'torn')
  const ends = [
    [agent.invocation_id, `workspace.discardAgent(layout, '${agent.invocation_id}')`],
    [made.worktree_id, `workspace.removeIntegration(layout, '${made.worktree_id}', { force: true })`],
  ] as const
  for (const [id, end] of ends) {
    await dieDuring(`
      import { watch, mkdirSync } from 'node:fs'
      mkdirSync(layout.archive + '/${id}', { recursive: true, mode: 0o700 })
      watch(layout.archive + '/${id}', (_, name) => name === 'content' && process.kill(process.pid, 'SIGKILL'))
      await ${end}
      await die()
    `)
  }
  const stands = async (id: string) =>
    [...(await listAgents(layout, { all: true })), ...(await listWorktrees(layout, { all: true }))].some(
      (each) => each.id === id,
    )
  if (await stands(agent.invocation_id)) await discardAgent(layout, agent.invocation_id)
  if (await stands(made.worktree_id)) await removeIntegration(layout, made.worktree_id, { force: true })
  expect(await gitText(repo, 'branch', '--list', 'agency/s*')).toBe('')
  expect((await gitText(repo, 'worktree', 'list')).split('\n')).toHaveLength(2)
  for (const { id, branch } of [
    { id: agent.invocation_id, branch: agent.sandbox_branch },
    { id: made.worktree_id, branch: made.branch },
  ]) {
    await restoreArchived(layout, id)
    expect(await gitText(repo, 'branch', '--list', branch!)).toContain(branch)
  }
})

test('kill -9 in the middle of a discard loses nothing, and the next attempt finishes it', async () => {
  const meta = await startAgent({ layout: ground.layout, worktree: 'feature' })
  const id = meta.invocation_id
  // Dies with the folder moved and git's side still standing: a hook of ours cannot run, so the signal comes
  // from a watcher on the archive.
  await dieDuring(`
    import { watch } from 'node:fs'
    import { mkdirSync } from 'node:fs'
    mkdirSync(layout.archive + '/${id}', { recursive: true, mode: 0o700 })
    watch(layout.archive + '/${id}', (_, name) => name === 'content' && process.kill(process.pid, 'SIGKILL'))
    await workspace.discardAgent(layout, '${id}')
    await die()
  `)
  const state = (await listAgents(ground.layout, { all: true })).find((entry) => entry.id === id)
  if (state?.meta?.outcome === null) await discardAgent(ground.layout, id)
  expect(await gitText(repo, 'branch', '--list', 'agency/sandbox-*')).toBe('')
  expect(await gitText(repo, 'rev-parse', `refs/orangery/archive/${id}`)).toBe(meta.base_commit)
  await restoreArchived(ground.layout, id as DispatchId)
  expect(await gitText(meta.sandbox_path, 'status', '--porcelain')).toBe('')
})

test('kill -9 of a restore after any of its steps is finished by a second restore, and nothing is lost', async () => {
  const meta = await startAgent({ layout: ground.layout, worktree: 'feature' })
  const { invocation_id: id, sandbox_path: tree, sandbox_branch: branch } = meta
  const mount = meta.roots[0]?.mount
  const written = join(mount?.kind === 'overlay' ? mount.upper : '', 'new.txt')
  await mkdir(join(written, '..'), { recursive: true })
  await writeFile(written, 'work')
  await gitText(tree, 'commit', '-q', '--allow-empty', '-m', 'Mine')
  const tip = await gitText(repo, 'rev-parse', branch!)
  for (const step of restoreSteps) {
    await discardAgent(ground.layout, id)
    await dieDuring(
      `await workspace.restoreArchived(layout, '${id}', (done) => done === '${step}' ? die() : undefined)`,
    )
    await restoreArchived(ground.layout, id)
    expect(await readFile(written, 'utf8'), step).toBe('work')
    expect(await gitText(repo, 'rev-parse', branch!), step).toBe(tip)
    expect(await gitText(tree, 'status', '--porcelain', '-b'), step).toBe(`## ${branch}`)
    expect(
      (await listAgents(ground.layout)).map((entry) => entry.id),
      step,
    ).toEqual([id])
    expect(await findOrphans(ground.layout), step).toEqual([])
  }
})
