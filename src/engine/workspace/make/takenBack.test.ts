import { readdir } from 'node:fs/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createRepoLock } from '../../base/lock.ts'
import { gitText, makeFeature, type Feature } from '../fixture.ts'
import { creationSteps } from './startAgent.ts'
import { createWorktree, worktreeSteps } from './worktree.ts'

let feature: Feature
beforeEach(async () => {
  feature = await makeFeature()
})
afterEach(() => feature.ground[Symbol.asyncDispose]())

const state = async () => {
  const { ground, repo, repoId, branches } = feature
  const { layout } = ground
  const folders = [
    layout.worktrees(repoId()),
    layout.sandboxes(repoId()),
    `${layout.repo(repoId())}/invocations`,
  ]
  return {
    worktrees: await gitText(repo, 'worktree', 'list'),
    branches: await branches(),
    folders: await Promise.all(folders.map((folder) => readdir(folder).catch(() => []))),
  }
}

test.each(creationSteps)('agent start: taken back after %s leaves nothing', async (last) => {
  const before = await state()
  const abort = new AbortController()
  const attempt = feature.start({
    signal: abort.signal,
    afterStep: (step) => (step === last ? abort.abort() : undefined),
  })
  await expect(attempt).rejects.toMatchObject({ code: 'workspace.taken_back' })
  expect(await state()).toEqual(before)
})

test.each(worktreeSteps)('worktree create: taken back after %s leaves nothing', async (last) => {
  const before = await state()
  const abort = new AbortController()
  const attempt = createWorktree({
    layout: feature.ground.layout,
    repo: feature.repo,
    name: 'second',
    signal: abort.signal,
    afterStep: (step) => (step === last ? abort.abort() : undefined),
  })
  await expect(attempt).rejects.toMatchObject({ code: 'workspace.taken_back' })
  expect(await state()).toEqual(before)
})

test('whoever takes it back does not wait for the lock any longer', async () => {
  const before = await state()
  const abort = new AbortController()
  await using _held = await createRepoLock(feature.ground.layout).acquire(feature.repoId())
  const attempt = feature.start({ signal: abort.signal })
  setTimeout(() => abort.abort(), 200)
  await expect(attempt).rejects.toMatchObject({ code: 'workspace.taken_back' })
  expect(await state()).toEqual(before)
})
