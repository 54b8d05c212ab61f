import { Folder, FolderGit2 } from 'lucide-react'
import type { DispatchRow } from '../../shared/dispatch.ts'
import { PathText, Plain } from '../text/Plain.tsx'
import type { WorktreePlace } from './useWorktree.ts'

/** Where it works: the folder, or the worktree by the names a person gave it. */
export function Place({ row, worktree }: { row: DispatchRow; worktree: WorktreePlace | null }) {
  if (worktree !== null) {
    return (
      <span className="flex min-w-0 items-center gap-1.5 text-small text-ink-faint" title={worktree.tree}>
        <FolderGit2 size={13} className="shrink-0" />
        <PathText path={worktree.repo} className="font-mono text-micro" />
        <span className="shrink-0 text-ink-soft">
          <Plain>{worktree.name}</Plain>
        </span>
      </span>
    )
  }
  return (
    <span
      className="flex min-w-0 items-center gap-1.5 text-small text-ink-faint"
      title={row.roots.join('\n')}
    >
      <Folder size={13} className="shrink-0" />
      <PathText path={row.roots[0] ?? ''} className="font-mono text-micro" />
      {row.roots.length > 1 && <span className="shrink-0">+{row.roots.length - 1}</span>}
    </span>
  )
}
