import { useState } from 'react'
import { isTerminal, type DispatchRow } from '../../shared/dispatch.ts'
import { Plain } from '../text/Plain.tsx'
import { Terminal } from './Terminal.tsx'

function waitingText(row: DispatchRow): string {
  if (row.status === 'starting') return 'Preparing the sandbox…'
  if (row.status === 'running') return 'Running. Nothing printed yet.'
  return 'It printed nothing.'
}

export function Output({ row }: { row: DispatchRow }) {
  const [empty, setEmpty] = useState(true)
  if (row.status === 'preflight_failed') {
    return (
      <div className="grid flex-1 place-items-center p-8">
        <div className="selectable max-w-xl rounded-lg bg-bad-wash p-5">
          <h2 className="text-large font-semibold">It did not start</h2>
          <p className="mt-1 whitespace-pre-wrap text-ink-soft [overflow-wrap:anywhere]">
            <Plain>{row.error ?? 'A check before the start failed.'}</Plain>
          </p>
          <p className="mt-3 text-small text-ink-faint">Nothing ran and no file was touched.</p>
        </div>
      </div>
    )
  }
  return (
    <div className="relative flex min-h-0 flex-1 flex-col">
      <div className="min-h-0 flex-1 py-3 pl-4">
        <Terminal id={row.id} interactive={!isTerminal(row.status)} onEmpty={setEmpty} />
      </div>
      {empty && (
        <p className="pointer-events-none absolute inset-x-0 top-4 px-5 font-mono text-small text-ink-faint">
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
