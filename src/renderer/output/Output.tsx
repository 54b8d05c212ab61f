import { useState } from 'react'
import { isTerminal, type DispatchDetail, type DispatchRow } from '../../shared/dispatch.ts'
import { Plain } from '../text/Plain.tsx'
import { DidNotStart } from './DidNotStart.tsx'
import { Terminal } from './Terminal.tsx'

function waitingText(row: DispatchRow): string {
  if (row.status === 'starting') return 'Preparing the sandbox…'
  if (row.status === 'running') return 'Running. Nothing printed yet.'
  return 'It printed nothing.'
}

export function Output({ row }: { row: DispatchDetail }) {
  const [empty, setEmpty] = useState(true)
  if (row.status === 'preflight_failed') return <DidNotStart detail={row} />
  return (
    <div className="relative flex min-h-0 flex-1 flex-col">
      <div className="min-h-0 flex-1 py-3 pl-4">
        <Terminal id={row.id} interactive={!isTerminal(row.status)} onEmpty={setEmpty} />
      </div>
      {empty && (
        // Output that is on its way is not none.
        <p className="fade pointer-events-none [animation-delay:700ms] [animation-fill-mode:backwards] absolute inset-x-0 top-4 px-5 font-mono text-small text-ink-faint">
          {waitingText(row)}
        </p>
      )}
      {isTerminal(row.status) && row.error !== null && (
        <p className="selectable shrink-0 border-t border-line bg-bad-wash px-5 py-2 text-small text-bad [overflow-wrap:anywhere]">
          <Plain>{row.error}</Plain>
        </p>
      )}
    </div>
  )
}
