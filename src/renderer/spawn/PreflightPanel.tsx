import { CircleAlert, CircleCheck, LoaderCircle } from 'lucide-react'
import type { PreflightReport } from '../../shared/doctor.ts'
import { Plain } from '../text/Plain.tsx'

export function PreflightPanel({ report, busy }: { report: PreflightReport | undefined; busy: boolean }) {
  if (report === undefined) {
    return (
      <p className="flex items-center gap-2 text-small text-ink-faint">
        {busy && <LoaderCircle size={14} className="animate-spin" />}
        {busy ? 'Checking…' : 'Checked before it starts: folders, sandbox, disk, sign-ins.'}
      </p>
    )
  }
  const failures = report.checks.filter((check) => !check.ok)
  if (failures.length === 0) {
    return (
      <p className="flex items-center gap-2 text-small text-good" role="status">
        <CircleCheck size={14} />
        Ready to start. {report.checks.length} {report.checks.length === 1 ? 'check' : 'checks'} passed.
      </p>
    )
  }
  return (
    <ul className="selectable space-y-2" role="alert">
      {failures.map((check) => (
        <li key={check.name} className="flex gap-2 text-small">
          <CircleAlert size={14} className="mt-0.5 shrink-0 text-bad" />
          <span className="min-w-0 [overflow-wrap:anywhere]">
            <span className="text-ink">
              <Plain>{`${check.name}: ${check.detail}`}</Plain>
            </span>
            {check.fix !== null && (
              <span className="block text-ink-soft">
                <Plain>{check.fix}</Plain>
              </span>
            )}
          </span>
        </li>
      ))}
    </ul>
  )
}
