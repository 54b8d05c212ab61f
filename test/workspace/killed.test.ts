import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Ground, gitText } from '../../src/engine/workspace/fixture.ts'
import {
  createWorktree,
  discardAgent,
  findOrphans,
  listAgents,
  restoreArchived,
  startAgent,
} from '../../src/engine/workspace/index.ts'
import { restoreSteps } from '../../src/engine/workspace/reattach.ts'
import { creationSteps } from '../../src/engine/workspace/startAgent.ts'
import type { DispatchId } from '../../src/shared/ids.ts'

let ground: Ground
let repo: string
beforeEach(async () => {
  ground = await Ground.make()
  repo = await ground.repo('repo')
  await createWorktree({ layout: ground.layout, repo, name: 'feature' })
})
afterEach(() => ground[Symbol.asyncDispose]())

const source = join(import.meta.dirname, '..', '..', 'src', 'engine')

/** Runs a piece of the engine in a process that kills itself with SIGKILL when the piece says so. */
async function dieDuring(body: string): Promise<void> {
  const script = `
    import * as workspace from ${JSON.stringify(join(source, 'workspace', 'index.ts'))}
    import { layout as layoutAt } from ${JSON.stringify(join(source, 'base', 'paths.ts'))}
    const layout = layoutAt(${JSON.stringify(ground.layout.dataDir)})
    const die = () => new Promise(() => process.kill(process.pid, 'SIGKILL'))
    ${body}
  `
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'inherit' })
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
