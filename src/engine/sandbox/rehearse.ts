import { join } from 'node:path'
import type { DispatchId, RepoId } from '../../shared/ids.ts'
import type { SandboxRequest } from '../base/sandbox.ts'
import { completePlan } from './complete.ts'
import { describePlan } from './describe.ts'
import { bubblewrapOptions, holderOrders, mountTable } from './holder.ts'
import type { HostFacts } from './host.ts'
import { planSandbox } from './plan.ts'
import { judgeAnswers, judgeProcess } from './probe.ts'
import { watchProtected } from './protect.ts'
import { buildFilter } from './seccomp/filter.ts'

/** A sandbox like most are, of nobody. */
function usualRequest(dataDir: string): SandboxRequest {
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
    door: { folder: join(dir, 'door'), guardsCommands: false },
  }
}

/**
 * Goes through everything of a start that only reads or works something out: code that runs for the first time is
 * several times slower, and a spare has the time that an agent has not.
 */
export async function rehearseSandbox(host: HostFacts, dataDir: string): Promise<void> {
  const plan = await completePlan(planSandbox(usualRequest(dataDir), host))
  describePlan(plan)
  bubblewrapOptions(plan, null)
  holderOrders(plan, [], null, false, mountTable(plan))
  if (plan.seccomp !== null) buildFilter(plan.seccomp.rules, plan.seccomp.architecture)
  judgeAnswers(plan, '')
  judgeProcess(plan, process.pid)
  await watchProtected(plan.request)
}
