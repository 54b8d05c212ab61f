import { CircleAlert, CircleCheck, LoaderCircle } from 'lucide-react'
import type { PreflightReport } from '../../shared/doctor.ts'
import { FixText } from '../design/FixText.tsx'
import { Plain } from '../text/Plain.tsx'

type PreflightPanelProps = {
  /** What has to be filled in or looked at again. */
  missing: string
  /** The checks that no field shows at its own place. */
  report: PreflightReport | undefined
  checked: number
  busy: boolean
}

/** Whether it may start: what is missing, what is being looked at, what failed. */
export function PreflightPanel({ missing, report, checked, busy }: PreflightPanelProps) {
  if (report === undefined) {
    return (
      <p className="flex items-center gap-2 text-small text-ink-faint" role="status">
        {busy && <LoaderCircle size={14} className="animate-spin" />}
        {busy ? 'Checking…' : missing}
      </p>
    )
  }
  if (report.ok) {
    return (
      <p className="flex items-center gap-2 text-small text-good" role="status">
        <CircleCheck size={14} />
        Ready to start. {checked} {checked === 1 ? 'check' : 'checks'} passed.
      </p>
    )
  }
  const failures = report.checks.filter((check) => !check.ok)
  if (failures.length === 0) {
    return (
      <p className="flex items-center gap-2 text-small text-bad" role="status">
        <CircleAlert size={14} />
        {missing}
      </p>
    )
  }
  return (
    <ul className="selectable max-h-32 space-y-2 overflow-y-auto" role="alert">
      {failures.map((check) => (
        <li key={check.name} className="flex gap-2 text-small">
          <CircleAlert size={14} className="mt-0.5 shrink-0 text-bad" />
          <span className="min-w-0 [overflow-wrap:anywhere]">
            <span className="text-ink">
              <Plain>{check.name === 'request' ? check.detail : `${check.name}: ${check.detail}`}</Plain>
            </span>
            {check.fix !== null && (
              <span className="block text-ink-soft">
                <FixText text={check.fix} />
              </span>
            )}
          </span>
        </li>
      ))}
    </ul>
  )
}
