import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { git } from '../../src/engine/base/git.ts'
import { gitText, makeFeature } from '../../src/engine/workspace/fixture.ts'
import {
  discardAgent,
  expireArchive,
  findOrphans,
  listAgents,
  listArchive,
  restoreArchived,
} from '../../src/engine/workspace/index.ts'
import { restoreSteps, type RestoreStep } from '../../src/engine/workspace/end/reattach.ts'

/** Nothing of a restore is taken back, so that an error after a step leaves what a kill there leaves. */
function cutOff(done: RestoreStep, step: RestoreStep): void {
  if (done === step) throw new Error(`killed after ${step}`)
}

test('a restore that is cut off after any step is finished by the next one, and expiry in between takes nothing', async () => {
  const { ground, repo, start, branches } = await makeFeature()
  await using _ground = ground
  const meta = await start()
  const id = meta.invocation_id
  const mount = meta.roots[0]?.mount
  const written = join(mount?.kind === 'overlay' ? mount.upper : '', 'new.txt')
  await mkdir(join(written, '..'), { recursive: true })
  await writeFile(written, 'work')
  await git(['-C', meta.sandbox_path, 'commit', '-q', '--allow-empty', '-m', 'Mine'])
  const tip = await gitText(repo, 'rev-parse', meta.sandbox_branch!)
  for (const step of restoreSteps) {
    await discardAgent(ground.layout, id)
    expect(await branches(), step).not.toContain('sandbox')
    await expect(restoreArchived(ground.layout, id, (done) => cutOff(done, step))).rejects.toThrow(step)
    const isOnItsWay = step !== 'branch'
    const advice = (await findOrphans(ground.layout)).filter((orphan) => orphan.id === id)
    if (step !== 'record')
      expect(
        advice.map(({ hint }) => hint),
        step,
      ).toEqual([`orangery agent restore ${id}`])
    if (isOnItsWay) {
      await expireArchive(ground.layout, Date.now() + 31 * 24 * 60 * 60 * 1000)
      expect(await gitText(repo, 'rev-parse', meta.sandbox_branch!), step).toBe(tip)
    }
    if (step === 'record') expect(await listArchive(ground.layout)).toEqual([])
    else await restoreArchived(ground.layout, id)
    expect(
      (await listAgents(ground.layout)).map((entry) => entry.id),
      step,
    ).toEqual([id])
    expect(await gitText(meta.sandbox_path, 'rev-parse', 'HEAD'), step).toBe(tip)
    expect(await gitText(meta.sandbox_path, 'status', '--porcelain', '-b'), step).toBe(
      `## ${meta.sandbox_branch}`,
    )
    expect(await readFile(written, 'utf8')).toBe('work')
    expect(await findOrphans(ground.layout), step).toEqual([])
    expect(await gitText(repo, 'for-each-ref', 'refs/orangery')).toBe('')
  }
})
