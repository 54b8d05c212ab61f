import { expect, test } from 'vitest'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import { layout } from '../../base/paths.ts'
import type { Workspace } from '../../base/workspace.ts'
import { insideRequest } from './inside.ts'

const workspace: Workspace = {
  id: '20260101000000-abcd' as DispatchId,
  repoId: '0123456789abcdef' as RepoId,
  strategy: 'overlay',
  driver: 'kernel-overlay',
  dir: '/data/sandboxes/x',
  roots: [],
  createdAtMs: 0,
}
const held = { hide: ['.env'], limits: { pids: 20, disk_mb: 5, memory_mb: 64, timeout_s: 2 } }
const parts = { layout: layout('/data'), runtime: '/run/ours', configDir: '/config' }
const request = insideRequest(parts, workspace, held, '/data/home', ['for-each-ref'], 10)

test('git that reads what an agent left is held to what the agent was, for a time of its own', () => {
  expect(request).toMatchObject({
    level: 1,
    hide: ['.env'],
    limits: { pids: 20, disk_mb: 5, memory_mb: 64, timeout_s: 10 },
    files: 'ro',
    network: 'none',
    grants: [],
    secretDirs: ['/data', '/run/ours', '/config'],
  })
})

test('it is a program of the system, in a repository of ours, with no configuration but ours', () => {
  expect(request.command).toContain('--git-dir=/home/agent/commits.git')
  expect(request.command).toContain('protocol.allow=never')
  expect(request.env).toMatchObject({ GIT_CONFIG_NOSYSTEM: '1', GIT_CONFIG_GLOBAL: '/dev/null' })
  // Then the sandbox has the system's own.
  expect(Object.keys(request.env)).not.toContain('PATH')
})
