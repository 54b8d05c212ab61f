import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run } from '../../src/engine/base/process.ts'
import { makeFoldersInMemory } from '../inMemory.ts'
import { watchCalls } from './everyCall.ts'
import { committed, committedByAgent, FaultBench } from './faultBench.ts'

await makeFoldersInMemory()

test.each(['commit', 'hooks', 'own'] as const)(
  'a crash at any operation of an apply that lands as a commit (%s) leaves no files without it, and no commit without the files',
  async (act) => {
    await using it = await FaultBench.make(act, act === 'own' ? committedByAgent : committed)
    const { operations, images } = await it.crashes(act, 0, watchCalls)
    const gitDir = join(it.bench.root, '.git')
    const git = async (...args: string[]) =>
      (await run('git', args, { cwd: it.bench.root })).stdout.toString().trimEnd()
    const outcomes = { old: 0, new: 0 }
    for (const [at, where] of images.entries()) {
      it.crash(at)
      await using next = await it.open()
      await next.changesets.recover()
      const found = it.picture()
      const isNew = found === it.new
      expect(isNew || found === it.old, `${where}: neither old nor new\n${found}`).toBe(true)
      outcomes[isNew ? 'new' : 'old'] += 1
      expect(await next.state(), where).toBe(isNew ? 'applied' : 'review')
      const { escalated } = await next.changesets.get(it.workspace.id)
      expect(escalated, where).toBeNull()
      const commits = (await git('log', '--format=%s %b', 'main')).split('\n').filter((line) => line !== '')
      const made = {
        commit: /^Apply changeset \S+ $/,
        hooks: /^Apply changeset \S+ hooked $/,
        own: /^second $/,
      }
      expect(commits.length, `${where}: ${commits}`).toBe(isNew ? (act === 'own' ? 3 : 2) : 1)
      if (isNew) expect(commits[0], where).toMatch(made[act])
      expect(await git('status', '--porcelain'), where).toBe('')
      // Nothing of ours is left where it keeps the user's git waiting.
      expect(existsSync(join(gitDir, 'index.lock')), `${where}: locked`).toBe(false)
      expect(
        readdirSync(gitDir).filter((name) => name.startsWith('orangery-')),
        where,
      ).toEqual([])
    }
    expect(images.length).toBeGreaterThan(60)
    console.log(
      `${act}: crashed at all ${operations} operations, ${images.length} different disks: ${outcomes.old} old, ${outcomes.new} new`,
    )
  },
)
