import { Plain } from '../text/Plain.tsx'
import type { PlanLine } from './planLines.ts'

/** A sandbox's plan, fact by fact. */
export function PlanList({ lines }: { lines: readonly PlanLine[] }) {
  return (
    <dl className="selectable grid max-h-96 grid-cols-[6.5rem_1fr] gap-x-3 gap-y-0.5 overflow-y-auto rounded-lg bg-sunken px-3 py-2 font-mono text-micro shadow-[inset_0_0_0_1px_var(--line)]">
      {lines.map(({ at, what, rest }) => (
        <div key={at} className="contents">
          <dt className="text-ink-faint">
            <Plain>{what}</Plain>
          </dt>
          <dd className="min-w-0 [overflow-wrap:anywhere]">
            <Plain>{rest}</Plain>
          </dd>
        </div>
      ))}
    </dl>
  )
}
