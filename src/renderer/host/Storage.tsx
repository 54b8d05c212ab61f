import { useState } from 'react'
import type { DiskUse } from '../../shared/disk.ts'
import { useAct, useAnswer } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { Dialog, DialogActions } from '../design/Dialog.tsx'
import { Reading, Rows, Section } from '../design/Section.tsx'
import { Trouble } from '../design/Trouble.tsx'
import { Segments } from '../design/Segments.tsx'
import { showToast } from '../design/toasts.ts'
import { go } from '../shell/route.ts'
import { Plain } from '../text/Plain.tsx'
import { bytes } from '../text/time.ts'
import { keptChoices, choiceOf } from './retention.ts'

const shownMost = 12

function Use({ use, most }: { use: DiskUse['dispatches'][number]; most: number }) {
  return (
    <li>
      <button
        type="button"
        // A sandbox in which nothing ran yet has a cost, but no page.
        disabled={use.status === null}
        onClick={() => go({ page: 'dispatch', id: use.id, tab: null })}
        title={`Workspace ${bytes(use.workspace)}, captures ${bytes(use.captures)}, logs ${bytes(use.events + use.output)}, other ${bytes(use.other)}`}
        className="grid w-full grid-cols-[1fr_8rem_5rem] items-center gap-3 px-4 py-2 text-left outline-offset-[-2px] enabled:hover:bg-hover tight:grid-cols-[1fr_3rem_5rem]"
      >
        <span className="min-w-0 truncate">
          <Plain>{use.name ?? use.id}</Plain>
          {use.removed.length > 0 && <span className="ml-2 text-small text-ink-faint">log removed</span>}
        </span>
        <span className="h-1 overflow-hidden rounded-full bg-active">
          <span
            className="block h-full rounded-full bg-accent"
            style={{ width: `${(use.total / most) * 100}%` }}
          />
        </span>
        <span className="tabular text-right text-small text-ink-soft">{bytes(use.total)}</span>
      </button>
    </li>
  )
}

/** How much of the logs is kept. Setting less than there is removes the oldest at once, so it says so before. */
function Retention({ disk }: { disk: DiskUse }) {
  const [asked, setAsked] = useState<number | null>(null)
  const keep = useAct('disk.keep_logs', {
    onDone: ({ removed }, { bytes: kept }) => {
      setAsked(null)
      const gone = removed.reduce((sum, log) => sum + log.bytes, 0)
      showToast({
        tone: 'good',
        title: kept === null ? 'All logs are kept' : `Logs are kept up to ${bytes(kept)}`,
        detail:
          removed.length === 0
            ? undefined
            : `${removed.length} removed with ${bytes(gone)}, the oldest first.`,
      })
    },
  })
  const current = choiceOf(disk.logs_kept)
  const removing =
    asked === 0
      ? 'Keeping none removes those of every dispatch that has ended'
      : `Keeping ${bytes(asked ?? 0)} removes the oldest`
  const choose = (name: string) => {
    const kept = keptChoices.find((choice) => choice.name === name)?.bytes ?? null
    if (kept !== null && kept < disk.logs) setAsked(kept)
    else keep.mutate({ bytes: kept })
  }
  return (
    <Section
      title="Logs"
      hint={`${bytes(disk.logs)} of event logs and output. Past the size you set the oldest go, and the record says so; nothing else is ever deleted by itself.`}
    >
      <div className="flex flex-wrap items-center gap-3">
        <Segments
          label="Logs kept"
          value={current ?? 'own'}
          onChange={choose}
          segments={[
            ...keptChoices.map(({ name, label }) => ({ value: name, label })),
            ...(current === null && disk.logs_kept !== null
              ? [{ value: 'own', label: bytes(disk.logs_kept) }]
              : []),
          ]}
        />
        {keep.isPending && <span className="text-small text-ink-faint">Setting…</span>}
      </div>
      <Dialog
        open={asked !== null}
        onClose={() => setAsked(null)}
        title="Remove old logs"
        description={`There are ${bytes(disk.logs)} of logs now. ${removing} at once. Records, changesets and your files stay.`}
        footer={
          <DialogActions cancel="Keep them" onCancel={() => setAsked(null)}>
            <Button look="danger" disabled={keep.isPending} onClick={() => keep.mutate({ bytes: asked })}>
              {asked === 0 ? 'Remove logs' : 'Remove the oldest'}
            </Button>
          </DialogActions>
        }
      />
    </Section>
  )
}

/** What each dispatch costs. */
export function Storage() {
  const disk = useAnswer('disk.use', {}, { fresh: true })
  const [all, setAll] = useState(false)
  if (disk.error !== null) return <Trouble error={disk.error} onRetry={() => void disk.refetch()} />
  if (disk.data === undefined) return <Reading what="Measuring…" />
  const { shared, total } = disk.data
  const dispatches = disk.data.dispatches.toSorted((a, b) => b.total - a.total)
  const most = Math.max(1, dispatches[0]?.total ?? 1)
  const hidden = dispatches.length - shownMost
  return (
    <>
      <Section
        title="Dispatches"
        hint={`Shared: captures ${bytes(shared.objects)}, records ${bytes(shared.records)}, backups ${bytes(shared.backups)}.`}
        aside={<span className="tabular text-large text-ink-soft">{bytes(total)}</span>}
      >
        <Rows empty="No dispatch costs anything yet.">
          {dispatches.slice(0, all ? undefined : shownMost).map((use) => (
            <Use key={use.id} use={use} most={most} />
          ))}
        </Rows>
        {!all && hidden > 0 && (
          <Button onClick={() => setAll(true)}>
            {hidden === 1 ? 'Show one smaller' : `Show ${hidden} smaller`}
          </Button>
        )}
      </Section>
      <Retention disk={disk.data} />
    </>
  )
}
