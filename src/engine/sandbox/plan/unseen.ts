import { realpath, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { CheckResult } from '../../../shared/doctor.ts'
import type { SandboxRequest } from '../../base/sandbox.ts'
import type { HostFacts } from '../host/host.ts'
import { isInside } from './view.ts'

type Shown = { readonly place: string; readonly why: string }

/** What of the host the agent sees, as folders. At the levels above 1 the system is an image's. */
function shownFolders(
  { level, workspace, grants }: SandboxRequest,
  host: Pick<HostFacts, 'system'>,
): Shown[] {
  const roots = workspace.roots.filter(({ access }) => access !== 'hidden')
  const system = level === 1 ? host.system.filter(({ kind }) => kind === 'folder') : []
  return [
    ...roots.flatMap(({ path, target }) =>
      [...new Set([path, target])].map((place) => ({ place, why: `the workspace ${target}` })),
    ),
    ...grants.map((place) => ({ place, why: `${place}, which its card may read` })),
    ...system.map(({ path }) => ({ place: path, why: `${path} of this machine, which every sandbox shows` })),
  ]
}

const identityOf = async (path: string): Promise<string | null> => {
  const info = await stat(path).catch(() => null)
  return info === null ? null : `${info.dev}:${info.ino}`
}

async function foldersAbove(path: string): Promise<ReadonlySet<string | null>> {
  const found = new Set<string | null>()
  for (let at = path; ; at = dirname(at)) {
    found.add(await identityOf(at))
    if (dirname(at) === at) return found
  }
}

/**
 * Files with secrets that the broker holds must be out of the agent's sight by every name: through links, at another
 * place where their folder is mounted, by a second name of their own. (escape: secret-file-in-view)
 */
export async function checkUnseen(
  request: SandboxRequest,
  host: Pick<HostFacts, 'system' | 'secretPaths'>,
  files: readonly string[],
): Promise<readonly CheckResult[]> {
  if (request.level === 0) return []
  const shown = await Promise.all(
    shownFolders(request, host).map(async (each) => ({ ...each, identity: await identityOf(each.place) })),
  )
  const findFault = async (file: string): Promise<string | null> => {
    const path = await realpath(file).catch(() => null)
    const info = path === null ? null : await stat(path).catch(() => null)
    // What is not there is told of as a secret that is missing.
    if (path === null || info === null) return null
    const above = await foldersAbove(path)
    const isHiddenInSystem = host.secretPaths.some((secret) => isInside(path, secret.path))
    const place = shown.find(
      ({ place: folder, identity }) =>
        (isInside(path, folder) || (identity !== null && above.has(identity))) &&
        !(isHiddenInSystem && host.system.some((entry) => entry.path === folder)),
    )
    if (place !== undefined) return `the agent could read it in ${place.why}`
    return info.nlink > 1 ? 'it has a second name (a hard link), which the agent may be able to read' : null
  }
  const faults = await Promise.all(files.map(findFault))
  return files.flatMap((file, index): readonly CheckResult[] => {
    const fault = faults[index] ?? null
    if (fault === null) return []
    const fix = `Keep the secret of sandboxCredentials where no agent looks: move ${file} to a folder of your home outside of every workspace, and name it there.`
    return [{ name: 'file of a secret', ok: false, detail: `${file}: ${fault}`, fix }]
  })
}
