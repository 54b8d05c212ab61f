import { ArchiveRestore, CircleHelp, FolderGit2, Trash2 } from 'lucide-react'
import { useState } from 'react'
import type { ArchiveRecord, Orphan, WorktreeEntry } from '../../shared/invocation.ts'
import { useAct, useAnswer } from '../client/queries.ts'
import { Badge } from '../design/Badge.tsx'
import { Button } from '../design/Button.tsx'
import { Dialog, DialogActions } from '../design/Dialog.tsx'
import { FixText } from '../design/FixText.tsx'
import { Reading, Rows, Section } from '../design/Section.tsx'
import { showToast } from '../design/toasts.ts'
import { useDispatches } from '../dispatches/useDispatches.ts'
import { PathText, Plain } from '../text/Plain.tsx'
import { date } from '../text/time.ts'
import { Sandboxes } from './Sandboxes.tsx'

const orphanWords: Readonly<Record<string, string>> = {
  sandbox_without_record: 'A sandbox without a record',
  record_without_sandbox: 'A record without its sandbox',
  worktree_without_record: 'A worktree without a record',
  record_without_worktree: 'A record without its worktree',
  restore_unfinished: 'A restore that was cut off',
  repository_gone: 'A repository that is gone',
  marker_missing: 'A tree without its marker',
  branch_without_sandbox: 'A branch without a sandbox',
  branch_without_worktree: 'A branch without its worktree',
  registered_without_sandbox: 'Git knows a worktree that is gone',
  registered_without_worktree: 'Git knows an integration worktree that is gone',
  row_without_record: 'A dispatch without its record on disk',
  record_lost: 'A sandbox of the database that is not on disk',
  work_unknown: 'Work that the database does not know',
  archive_without_record: 'Something in the archive without a record',
}

/** How it came into the archive, in the words of the window; anything else is shown as it was written. */
const archivedWords: Readonly<Record<string, string>> = { disposed: 'not landed' }

/** What is removed is archived first; unmerged work is named before anything happens. */
function RemoveDialog({ entry, onClose }: { entry: WorktreeEntry; onClose(): void }) {
  const looked = useAnswer('worktree.get', { id: entry.id }, { fresh: true })
  const remove = useAct('worktree.remove', {
    onDone: ({ archive }) => {
      onClose()
      showToast({ tone: 'good', title: 'Removed', detail: `Kept for 30 days: ${archive}` })
    },
  })
  const stakes = looked.data?.stakes
  const atStake = [
    ...(stakes?.uncommitted ?? []),
    ...(stakes?.unmerged ?? []),
    ...(stakes?.unfinished ?? []),
    ...(stakes?.ignored ?? []).map((path) => `${path} (git ignores it)`),
  ]
  return (
    <Dialog
      open
      onClose={onClose}
      title="Remove this worktree"
      description={<Plain>{`${entry.meta?.name ?? entry.id} of ${entry.meta?.repo_path ?? ''}`}</Plain>}
      footer={
        <DialogActions cancel="Keep it" onCancel={onClose}>
          <Button
            look="danger"
            disabled={looked.data === undefined || remove.isPending}
            onClick={() => remove.mutate({ id: entry.id, force: atStake.length > 0 })}
          >
            {atStake.length > 0 ? 'Archive the work and remove' : 'Remove'}
          </Button>
        </DialogActions>
      }
    >
      {looked.data === undefined && looked.error === null && <Reading what="Looking at what is in it…" />}
      {looked.error !== null && (
        <p className="text-bad">
          <Plain>{looked.error.message}</Plain>
        </p>
      )}
      {looked.data !== undefined &&
        (atStake.length === 0 ? (
          <p className="text-ink-soft">Everything in it is committed and on another branch.</p>
        ) : (
          <>
            <p className="text-ink-soft">In it alone, and kept in the archive for 30 days:</p>
            <ul className="selectable mt-2 max-h-48 overflow-y-auto rounded-lg bg-sunken px-3 py-2 font-mono text-small shadow-[inset_0_0_0_1px_var(--line)]">
              {atStake.map((line) => (
                <li key={line} className="[overflow-wrap:anywhere]">
                  <Plain>{line}</Plain>
                </li>
              ))}
            </ul>
          </>
        ))}
    </Dialog>
  )
}

function Worktree({ entry, onRemove }: { entry: WorktreeEntry; onRemove(): void }) {
  return (
    <li className="flex items-center gap-3 px-4 py-2.5">
      <FolderGit2 size={15} className="shrink-0 text-ink-faint" />
      <div className="selectable min-w-0 flex-1">
        <p className="flex items-center gap-2">
          <span className="min-w-0 truncate font-medium">
            <Plain>{entry.meta?.name ?? entry.id}</Plain>
          </span>
          {entry.meta !== null && (
            <span className="min-w-0 truncate font-mono text-micro text-ink-faint">
              <Plain>{entry.meta.branch}</Plain>
            </span>
          )}
          {entry.broken && (
            <Badge tone="bad" title={entry.why ?? ''}>
              Broken
            </Badge>
          )}
        </p>
        {entry.broken ? (
          <p className="text-small [overflow-wrap:anywhere] text-bad">
            <Plain>{entry.why ?? ''}</Plain>
          </p>
        ) : (
          <PathText path={entry.meta?.repo_path ?? ''} className="text-small text-ink-faint" />
        )}
      </div>
      {!entry.broken && (
        <Button
          look="dangerQuiet"
          size="small"
          icon={<Trash2 size={13} />}
          aria-label={`Remove worktree ${entry.meta?.name ?? entry.id}`}
          onClick={onRemove}
        >
          Remove…
        </Button>
      )}
    </li>
  )
}

function Archived({ record, busy, onRestore }: { record: ArchiveRecord; busy: boolean; onRestore(): void }) {
  return (
    <li className="flex items-center gap-3 px-4 py-2.5">
      <div className="selectable min-w-0 flex-1">
        <p className="flex items-center gap-2">
          <span className="min-w-0 truncate font-medium">
            <Plain>{record.name || record.id}</Plain>
          </span>
          <Badge>{record.kind === 'worktree' ? 'Worktree' : 'Sandbox'}</Badge>
          <span className="truncate text-small text-ink-faint">
            <Plain>{archivedWords[record.why] ?? record.why}</Plain>
          </span>
        </p>
        <p className="text-small text-ink-faint">
          Put away {date(record.archived_at)}, kept until {date(record.expires_at)}
        </p>
      </div>
      <Button
        size="small"
        icon={<ArchiveRestore size={13} />}
        disabled={busy}
        aria-label={`Restore ${record.name || record.id}`}
        onClick={onRestore}
      >
        Restore
      </Button>
    </li>
  )
}

function OrphanRow({ orphan }: { orphan: Orphan }) {
  return (
    <li className="flex gap-3 px-4 py-2.5">
      <CircleHelp size={15} className="mt-0.5 shrink-0 text-warn" />
      <div className="selectable min-w-0 flex-1">
        <p>
          <span className="font-medium">{orphanWords[orphan.kind] ?? orphan.kind}</span>{' '}
          <span className="text-small text-ink-faint">
            <Plain>{orphan.why}</Plain>
          </span>
        </p>
        <p className="font-mono text-micro [overflow-wrap:anywhere] text-ink-faint">
          <Plain>{orphan.place}</Plain>
        </p>
        {orphan.hint !== null && (
          <p className="mt-0.5 text-small [overflow-wrap:anywhere] text-ink-soft">
            <Plain>{orphan.hint}</Plain>
          </p>
        )}
      </div>
    </li>
  )
}

/** Trees beside the user's own, what was put away and can come back, and what nobody can account for. */
export function Workspaces() {
  const [removing, setRemoving] = useState<WorktreeEntry | null>(null)
  const worktrees = useAnswer('worktree.list', { all: true }, { fresh: true })
  const list = useDispatches()
  const archive = useAnswer('archive.list', {}, { fresh: true })
  const orphans = useAnswer('workspace.orphans', {}, { fresh: true })
  const restore = useAct('archive.restore', {
    onDone: ({ name, origin }) => showToast({ tone: 'good', title: `Restored ${name}`, detail: origin }),
  })
  const standing = (worktrees.data ?? []).filter((entry) => entry.broken || entry.meta?.outcome === null)
  return (
    <>
      <Section title="Worktrees" hint="Trees on branches of their own that agents work from.">
        {worktrees.data === undefined ? (
          <Reading what="Looking for worktrees…" />
        ) : (
          <Rows
            empty={
              <FixText text="None. Make one with `orangery worktree create`, or in the form for a new dispatch." />
            }
          >
            {standing.map((entry) => (
              <Worktree key={entry.id} entry={entry} onRemove={() => setRemoving(entry)} />
            ))}
          </Rows>
        )}
      </Section>
      <Sandboxes rows={list.data ?? []} worktrees={worktrees.data ?? []} />
      <Section title="Archive" hint="What was discarded, removed or abandoned. It is kept for 30 days.">
        {archive.data === undefined ? (
          <Reading what="Looking into the archive…" />
        ) : (
          <Rows empty="Nothing was put away.">
            {archive.data.map((record) => (
              <Archived
                key={record.id}
                record={record}
                busy={restore.isPending}
                onRestore={() => restore.mutate({ id: record.id })}
              />
            ))}
          </Rows>
        )}
      </Section>
      <Section
        title="Orphans"
        hint="What is on disk or in a repository and belongs to nothing. It is shown, never deleted."
      >
        {orphans.data === undefined ? (
          <Reading what="Comparing disk and records…" />
        ) : (
          <Rows empty="Everything is accounted for.">
            {orphans.data.map((orphan) => (
              <OrphanRow key={orphan.kind + orphan.place} orphan={orphan} />
            ))}
          </Rows>
        )}
      </Section>
      {removing !== null && <RemoveDialog entry={removing} onClose={() => setRemoving(null)} />}
    </>
  )
}
