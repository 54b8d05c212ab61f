import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { SavedApproval } from '../../../shared/config.ts'
import { revokeApproval, saveApprovals } from './edit.ts'
import { loadConfig } from './load.ts'
import { approvalDigest, trustFilePath } from './trust.ts'

let home: string
let project: string
let userConfigDir: string

beforeEach(async () => {
  home = await realpath(await mkdtemp(join(tmpdir(), 'orangery-collision-')))
  project = join(home, 'project')
  userConfigDir = join(home, 'config')
  await mkdir(project)
  await writeFile(projectFile(), JSON.stringify({ sandboxApprovedEscalations: [theirs] }))
})
afterEach(() => rm(home, { recursive: true, force: true }))

/** Found by a birthday search of two minutes: their digests begin with the same twelve digits. */
const mine: SavedApproval = { agent: 'command', level: 'network', hosts: ['cdn-8r9ev.test:443'] }
const theirs: SavedApproval = { agent: '*', level: 'full', hosts: [], roots: ['.', 'n9fp1v'] }
const alike = '16fdbc595836'

const projectFile = () => join(project, '.orangery.json')
const approved = async () =>
  (await loadConfig({ userConfigDir, roots: [project] })).sandboxApprovedEscalations.map(({ level }) => level)
const save = () =>
  saveApprovals({
    userConfigDir,
    scope: 'project',
    approvals: [mine],
    roots: [project],
    by: 'person',
    at: new Date(),
  })

test("a repository's own approval does not count by a digest that begins like that of a saved one (escape: approval-collision)", async () => {
  expect([mine, theirs].map((approval) => approvalDigest(approval).slice(0, 12))).toEqual([alike, alike])
  await save()
  expect(await approved()).toEqual(['network'])
  expect(JSON.parse(await readFile(projectFile(), 'utf8'))).toEqual({
    sandboxApprovedEscalations: [theirs, mine],
  })
})

test('what was remembered by the beginning of a digest alone is asked about again', async () => {
  await save()
  const trust = await readFile(trustFilePath(userConfigDir), 'utf8')
  await writeFile(trustFilePath(userConfigDir), trust.replace(approvalDigest(mine), alike))
  expect(await approved()).toEqual([])
  await save()
  expect(await approved()).toEqual(['network'])
})

test('an approval is revoked by a beginning of its id that no other has', async () => {
  await save()
  await expect(revokeApproval(userConfigDir, [project], alike)).rejects.toMatchObject({
    code: 'boundary.approval_ambiguous',
    hint: expect.stringContaining(approvalDigest(mine)),
  })
  expect(await approved()).toEqual(['network'])
  const revoked = await revokeApproval(userConfigDir, [project], approvalDigest(mine).slice(0, 16))
  expect(revoked).toMatchObject([{ approval: mine }])
  expect(await approved()).toEqual([])
})
