import type { ChangeKind, Glimpse } from '../../../shared/changeset.ts'
import type { Workspace } from '../../base/workspace.ts'
import { namedPath } from '../bytePath.ts'
import { gitPartOf, isMarker } from '../classify/classify.ts'
import type { Glance } from '../capture/foundTree.ts'
import { glanceAt } from '../capture/scan.ts'

/** A quick look at a workspace: no content is read, so a file that was only touched shows up too. */
export async function peekWorkspace(workspace: Workspace): Promise<Glimpse[]> {
  const found: Glimpse[] = []
  if (workspace.strategy === 'none') return found
  for (const root of workspace.roots) {
    if (root.role !== 'project' || root.access !== 'rw') continue
    for (const { path, base, result } of await glanceAt(workspace, root)) {
      if (gitPartOf(path) !== null || isMarker(path)) continue
      const change = changeOf(base, result)
      if (change === null) continue
      found.push({
        root: root.path,
        ...namedPath(path),
        change,
        size_before: sizeOf(base),
        size_after: sizeOf(result),
      })
    }
  }
  return found
}

function changeOf(base: Glance | null, result: Glance | null): ChangeKind | null {
  if (base === null) return 'added'
  if (result === null) return 'deleted'
  if ((base.mode & 0o170000n) !== (result.mode & 0o170000n)) return 'type'
  if (result.isDirectory()) return base.mode === result.mode ? null : 'mode'
  return 'modified'
}
function sizeOf(stat: Glance | null): number | null {
  return stat === null || stat.isDirectory() ? null : Number(stat.size)
}
