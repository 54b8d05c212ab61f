import { join } from 'node:path'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import type { SandboxRequest } from '../../base/sandbox.ts'

/** A sandbox like most are, of nobody. */
export function usualRequest(dataDir: string): SandboxRequest {
  const id = '00000000000000-0000' as DispatchId
  const dir = join(dataDir, id)
  const mount = {
    kind: 'overlay',
    lower: '/nowhere',
    upper: join(dir, 'upper'),
    work: join(dir, 'work'),
  } as const
  const root = {
    path: '/nowhere',
    target: '/nowhere',
    name: 'nowhere',
    role: 'project',
    access: 'rw',
    mount,
  } as const
  return {
    id,
    level: 1,
    workspace: {
      id,
      repoId: '0000000000000000' as RepoId,
      strategy: 'overlay',
      driver: 'kernel-overlay',
      dir,
      roots: [root],
      createdAtMs: 0,
    },
    command: ['true'],
    cwd: root.target,
    env: {},
    files: 'rw',
    writableFiles: [],
    network: 'none',
    limits: {},
    grants: [],
    home: join(dir, 'home'),
    hide: [],
    secretDirs: [dataDir],
    terminal: true,
    door: { folder: join(dir, 'door') },
  }
}
