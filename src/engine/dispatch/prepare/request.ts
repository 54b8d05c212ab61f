import { isAbsolute, resolve } from 'node:path'
import { levelNames } from '../../../shared/level.ts'
import { fromHome } from '../../base/homes.ts'
import { doorPath, type SandboxRequest } from '../../base/sandbox.ts'
import type { WritableScopes } from '../../base/contract.ts'
import type { Workspace } from '../../base/workspace.ts'
import { gitSettingsEnvironment } from '../../egress/index.ts'
import { scopeAt, writablePlaces } from '../../policy/index.ts'
import { homeOf } from './home.ts'
import type { Job } from './job.ts'
import { listensForHosts, networkEnvironment } from '../boundary/outwards.ts'
import type { Parts } from '../parts.ts'
import { seenInside } from './place.ts'
import type { Trust } from './trust.ts'

/** A card is written for whoever uses it. */
const granted = (path: string): string => {
  const full = fromHome(path)
  return isAbsolute(full) ? resolve(full) : full
}

/** What can be written at which level, as the agent sees it. */
export function scopesInside(
  { writableFiles, writableAt }: WritableScopes,
  workspace: Workspace,
): WritableScopes {
  const inside = (paths: readonly string[]) => paths.map((path) => seenInside(workspace, path))
  if (writableAt === undefined) return { writableFiles: inside(writableFiles) }
  const lists = Object.entries(writableAt).map(([level, paths]) => [level, inside(paths)] as const)
  return { writableFiles: inside(writableFiles), writableAt: Object.fromEntries(lists) }
}

/** Where an agent starts that nobody told where to. */
const firstSeen = ({ roots, rootModes }: Job['contract']): string =>
  roots.find((root) => rootModes?.[resolve(root)] !== 'hidden') ?? '/'

export function sandboxRequest(
  parts: Parts,
  job: Job,
  workspace: Workspace,
  terminal: boolean,
  trust: Trust | null = null,
  door: SandboxRequest['door'] | null = null,
  lent: NonNullable<SandboxRequest['shown']> = [],
  home = homeOf(parts, job, workspace.dir),
): SandboxRequest {
  const { contract } = job
  const scopes = scopesInside(contract, workspace)
  const writable = scopeAt(scopes, contract.boundary)
  const shown = [...(trust?.shown ?? []), ...lent]
  return {
    id: job.id,
    level: contract.level,
    workspace,
    command: job.command,
    cwd: seenInside(workspace, contract.workingDir ?? firstSeen(contract)),
    env: {
      ...networkEnvironment(job),
      ...(contract.level === 0 ? {} : job.told.env),
      ...trust?.env,
      ...job.env,
      ...(contract.level === 0 ? {} : gitSettingsEnvironment(job.told.git, job.env)),
      ORANGERY_DISPATCH: job.id,
      ORANGERY_LEVEL: levelNames[contract.level],
      ...(door == null ? {} : { ORANGERY_ASK: `${doorPath}/bin/orangery-ask` }),
    },
    files: writable === null ? 'rw' : 'ro',
    writableFiles: writablePlaces(scopes),
    ...(contract.writableAt === undefined ? {} : { writableNow: writable ?? [] }),
    network: contract.level === 0 ? 'host' : listensForHosts(job) ? 'broker' : 'none',
    limits: contract.limits,
    grants: job.card.sandboxRequirements.read.map(granted),
    home,
    hide: contract.hide,
    ...(shown.length === 0 ? {} : { shown }),
    secretDirs: [parts.layout.dataDir, parts.runtime, parts.configDir],
    terminal,
    ...(door == null ? {} : { door: { folder: door.folder } }),
  }
}
