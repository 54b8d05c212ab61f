import { realpath } from 'node:fs/promises'
import type { CheckResult } from '../../../shared/doctor.ts'
import type { SandboxRequest } from '../../base/sandbox.ts'
import type { HostFacts } from '../host/host.ts'
import { isInside } from './view.ts'

/**
 * A root named through a link that the sandbox shows, in a folder of the system or in a grant: there is no folder to
 * mount it on, and where the link leads is not where the plan says that it is.
 */
export async function checkLinkedRoots(
  { level, grants, workspace }: SandboxRequest,
  host: Pick<HostFacts, 'system'>,
): Promise<readonly CheckResult[]> {
  const linked = workspace.roots.filter(({ path, target }) => path !== target)
  if (level !== 1 || linked.length === 0) return []
  const shown = await Promise.all(
    [...host.system.map(({ path }) => path), ...grants].map(async (folder) => ({
      folder,
      // What a grant is mounted on is a folder, also where it is itself named through a link.
      real: grants.includes(folder) ? await realpath(folder).catch(() => folder) : folder,
    })),
  )
  return linked.flatMap(({ path, target }): readonly CheckResult[] => {
    const around = shown.find(
      ({ folder, real }) => isInside(target, folder) && path !== real + target.slice(folder.length),
    )
    if (around === undefined) return []
    const detail = `${target} leads through a link in ${around.folder}, which the sandbox shows as it is`
    return [{ name: 'root', ok: false, detail, fix: `Name the folder by its real path: ${path}` }]
  })
}
