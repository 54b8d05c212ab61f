import { useAnswer } from '../client/queries.ts'
import { go } from '../shell/route.ts'
import { Plain } from '../text/Plain.tsx'
import { bytes } from '../text/time.ts'

const shownMost = 8

/** What each dispatch costs. Nothing is deleted from here: what is kept waits for somebody. */
export function DiskUse() {
  const disk = useAnswer('disk.use', {})
  if (disk.data === undefined) return null
  const { shared, total, logs, logs_kept: kept } = disk.data
  const dispatches = disk.data.dispatches.toSorted((a, b) => b.total - a.total)
  const most = Math.max(1, dispatches[0]?.total ?? 1)
  return (
    <section className="space-y-3">
      <div className="flex items-baseline gap-3">
        <h2 className="flex-1 text-title font-semibold tracking-tight">Disk</h2>
        <span className="tabular text-ink-soft">{bytes(total)}</span>
      </div>
      <ul className="divide-y divide-line overflow-hidden rounded-lg bg-raised shadow-[0_0_0_1px_var(--line)]">
        {dispatches.slice(0, shownMost).map((use) => (
          <li key={use.id}>
            <button
              type="button"
              onClick={() => go({ page: 'dispatch', id: use.id, tab: null })}
              className="grid w-full grid-cols-[1fr_8rem_5rem] items-center gap-3 px-4 py-2 text-left hover:bg-hover"
            >
              <span className="truncate">
                <Plain>{use.name ?? use.id}</Plain>
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
        ))}
        {dispatches.length === 0 && (
          <li className="px-4 py-3 text-ink-faint">No dispatch costs anything yet.</li>
        )}
      </ul>
      <p className="text-small text-ink-faint">
        {dispatches.length > shownMost && `${dispatches.length - shownMost} more. `}
        Captured trees {bytes(shared.objects)}, records {bytes(shared.records)}, backups{' '}
        {bytes(shared.backups)}, logs {bytes(logs)}
        {kept === null ? ', all kept.' : `, kept up to ${bytes(kept)}.`}
      </p>
    </section>
  )
}
