import { appendFile, mkdir, mkdtemp, realpath, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { SavedApproval } from '../../../shared/config.ts'
import { revokeApproval, saveApprovals } from './edit.ts'
import { approvalDigest } from './trust.ts'
import { asWeWrote } from './written.ts'

let home: string
beforeEach(async () => {
  home = await realpath(await mkdtemp(join(tmpdir(), 'orangery-written-')))
})
afterEach(() => rm(home, { recursive: true, force: true }))

test('a config counts as ours from when we wrote it until somebody else changes it', async () => {
  const [project, other, userConfigDir] = ['project', 'other', 'config'].map((name) => join(home, name)) as [
    string,
    string,
    string,
  ]
  await mkdir(project)
  await mkdir(other)
  const approval = (host: string): SavedApproval => ({ agent: '*', level: 'network', hosts: [host] })
  const save = (scope: 'project' | 'user', roots: string[]) =>
    saveApprovals({
      userConfigDir,
      scope,
      roots,
      approvals: [approval('a.test'), approval('b.test')],
      by: 'person',
      at: new Date('2026-01-01T12:00:00Z'),
    })
  const own = join(userConfigDir, 'config.json')
  const file = join(project, '.orangery.json')
  expect(await asWeWrote(userConfigDir, [project])).toEqual([])
  await save('project', [project, other])
  expect(await asWeWrote(userConfigDir, [project])).toEqual([file])
  await save('user', [project])
  expect((await asWeWrote(userConfigDir, [project])).toSorted()).toEqual([own, file].toSorted())
  await revokeApproval(userConfigDir, [project], approvalDigest(approval('a.test')))
  expect((await asWeWrote(userConfigDir, [project])).toSorted()).toEqual([own, file].toSorted())
  await appendFile(file, '\n')
  expect(await asWeWrote(userConfigDir, [project])).toEqual([own])
  await appendFile(own, '\n')
  expect(await asWeWrote(userConfigDir, [project])).toEqual([])
  // Not what it says counts, where it is another file.
  await rm(file)
  await symlink(join(other, '.orangery.json'), file)
  expect(await asWeWrote(userConfigDir, [project, other])).toEqual([join(other, '.orangery.json')])
})
