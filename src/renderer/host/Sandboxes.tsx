import { Play, Trash2 } from 'lucide-react'
import { useState } from 'react'
import type { DispatchRow } from '../../shared/dispatch.ts'
import type { WorktreeEntry } from '../../shared/invocation.ts'
import { useAct, useAnswer } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { Dialog, DialogActions } from '../design/Dialog.tsx'
import { FixText } from '../design/FixText.tsx'
import { Reading, Rows, Section } from '../design/Section.tsx'
import { showToast } from '../design/toasts.ts'
import { standingOf } from '../dispatches/words.ts'
import { go } from '../shell/route.ts'
import { useSpawn } from '../spawn/SpawnContext.ts'
import { Plain } from '../text/Plain.tsx'
import { dateTime } from '../text/time.ts'
import { idleSandboxes, type SandboxEntry } from './idleSandboxes.ts'

const nameOf = (entry: SandboxEntry) => entry.meta?.invocation_name || entry.id

function DiscardDialog({ entry, onClose }: { entry: SandboxEntry; onClose(): void }) {
  const discard = useAct('agent.discard', {
    onDone: ({ archive }) => {
      onClose()
      showToast({
        tone: 'good',
        title: 'Discarded',
        detail: archive === null ? 'There was nothing in it to keep.' : `Kept for 30 days: ${archive}`,
      })
    },
  })
  return (
    <Dialog
      open
      onClose={onClose}
      title="Discard this sandbox"
      description={
        <>
          <Plain>{nameOf(entry)}</Plain> goes, with its branch. Whatever is in it is put into the archive
          first and kept for 30 days.
        </>
      }
      footer={
        <DialogActions cancel="Keep it" onCancel={onClose}>
          <Button look="danger" disabled={discard.isPending} onClick={() => discard.mutate({ id: entry.id })}>
            Discard
          </Button>
        </DialogActions>
      }
    />
  )
}

function Sandbox({
  entry,
  worktree,
  row,
  onDiscard,
}: {
  entry: SandboxEntry
  worktree: WorktreeEntry | undefined
  /** The dispatch that ran in it; undefined where none has. */
  row: DispatchRow | undefined
  onDiscard(): void
}) {
  const openSpawn = useSpawn()
  const { meta } = entry
  return (
    <li className="flex items-center gap-3 px-4 py-2.5">
      <div className="selectable min-w-0 flex-1">
        <p className="flex items-center gap-2">
          <span className="min-w-0 truncate font-medium">
            <Plain>{nameOf(entry)}</Plain>
          </span>
          {meta?.sandbox_branch != null && (
            <span className="min-w-0 truncate font-mono text-micro text-ink-faint">
              <Plain>{meta.sandbox_branch}</Plain>
            </span>
          )}
        </p>
        <p className="text-small [overflow-wrap:anywhere] text-ink-faint">
          <Plain>
            {`from ${worktree?.meta?.name ?? meta?.integration_worktree_id ?? 'a worktree'}, made ${dateTime(meta?.started_at ?? '')}`}
          </Plain>
        </p>
      </div>
      {row !== undefined && (
        <Button
          size="small"
          aria-label={`Show ${nameOf(entry)}`}
          onClick={() => go({ page: 'dispatch', id: row.id, tab: null })}
        >
          {standingOf(row).label}
        </Button>
      )}
      {meta !== null && row === undefined && (
        <>
          <Button
            size="small"
            icon={<Play size={12} />}
            aria-label={`Run in ${nameOf(entry)}`}
            onClick={() =>
              openSpawn({
                invocation: entry.id,
                changeset: 'worktree',
                roots: [meta.roots.find((root) => root.role === 'project')?.path ?? ''],
              })
            }
          >
            Run here…
          </Button>
          <Button
            look="dangerQuiet"
            size="small"
            icon={<Trash2 size={13} />}
            aria-label={`Discard ${nameOf(entry)}`}
            onClick={onDiscard}
          >
            Discard…
          </Button>
        </>
      )}
    </li>
  )
}

/** Sandboxes that stand and in which nothing runs: to be run in, looked at or put away. */
export function Sandboxes({
  rows,
  worktrees,
}: {
  rows: readonly DispatchRow[]
  worktrees: readonly WorktreeEntry[]
}) {
  const [discarding, setDiscarding] = useState<SandboxEntry | null>(null)
  const agents = useAnswer('agent.list', { all: true }, { fresh: true })
  const idle = idleSandboxes(agents.data ?? [])
  return (
    <Section
      title="Idle sandboxes"
      hint={
        <FixText text="Beside a worktree, with nothing running in them. Made by a dispatch or `orangery agent start`." />
      }
    >
      {agents.data === undefined ? (
        <Reading what="Looking for sandboxes…" />
      ) : (
        <Rows empty="None.">
          {idle.map((entry) => (
            <Sandbox
              key={entry.id}
              entry={entry}
              worktree={worktrees.find((tree) => tree.id === entry.meta?.integration_worktree_id)}
              row={rows.find((each) => each.id === entry.id)}
              onDiscard={() => setDiscarding(entry)}
            />
          ))}
        </Rows>
      )}
      {discarding !== null && <DiscardDialog entry={discarding} onClose={() => setDiscarding(null)} />}
    </Section>
  )
}
