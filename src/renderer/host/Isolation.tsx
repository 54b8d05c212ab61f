import { CircleAlert, CircleCheck } from 'lucide-react'
import type { ReactNode } from 'react'
import type { CheckResult, LevelReport } from '../../shared/doctor.ts'
import { useAnswer } from '../client/queries.ts'
import { Badge } from '../design/Badge.tsx'
import { FixText } from '../design/FixText.tsx'
import { Reading } from '../design/Section.tsx'
import { Trouble } from '../design/Trouble.tsx'
import { LevelIcon } from '../dispatches/Badges.tsx'
import { levelWords } from '../dispatches/words.ts'
import { Plain } from '../text/Plain.tsx'

function CheckText({ check }: { check: CheckResult }) {
  return (
    <>
      <span className="text-ink-soft">
        <Plain>{`${check.name}:`}</Plain>
      </span>{' '}
      <span className="text-ink-faint">
        <Plain>{check.detail}</Plain>
      </span>
    </>
  )
}

function LevelRow({ report }: { report: LevelReport }) {
  const passed = report.checks.filter((check) => check.ok)
  return (
    <li className="rounded-lg bg-raised p-4 shadow-[0_0_0_1px_var(--line)]">
      <div className="flex items-center gap-2.5">
        <LevelIcon level={report.level} size={16} />
        <span className="shrink-0 font-medium">{levelWords[report.level].label}</span>
        <span className="shrink-0 text-ink-faint">level {report.level}</span>
        <span className="flex-1" />
        {report.driver !== null && (
          <span className="min-w-0 truncate font-mono text-micro text-ink-faint">
            <Plain>
              {report.workspace === null ? report.driver : `${report.driver}, ${report.workspace}`}
            </Plain>
          </span>
        )}
        {report.level === 0 ? (
          // That nothing keeps it inside is no good news.
          <Badge>Always there</Badge>
        ) : (
          <Badge tone={report.available ? 'good' : 'neutral'}>
            {report.available ? 'Available' : 'Not available'}
          </Badge>
        )}
      </div>
      <ul className="selectable space-y-1.5 not-empty:mt-3">
        {report.checks
          .filter((check) => !check.ok)
          .map((check) => (
            <li key={check.name} className="flex gap-2 text-small">
              <CircleAlert size={14} className="mt-0.5 shrink-0 text-bad" />
              <span className="min-w-0 [overflow-wrap:anywhere]">
                <CheckText check={check} />
                {check.fix !== null && (
                  <span className="mt-0.5 block text-ink">
                    <FixText text={check.fix} />
                  </span>
                )}
              </span>
            </li>
          ))}
      </ul>
      {passed.length > 0 && (
        <details className="selectable mt-2 text-small text-ink-faint">
          <summary className="inline-flex items-center gap-2 rounded-sm hover:text-ink">
            <CircleCheck size={14} className="text-good" />
            {passed.length} {passed.length === 1 ? 'check' : 'checks'} passed
          </summary>
          <ul className="mt-1.5 grid grid-cols-2 gap-x-4 gap-y-1 pl-5.5 tight:grid-cols-1">
            {passed.map((check) => (
              <li key={check.name} className="min-w-0 [overflow-wrap:anywhere]">
                <CheckText check={check} />
              </li>
            ))}
          </ul>
        </details>
      )}
    </li>
  )
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-ink-faint">{name}</dt>
      <dd className="min-w-0 font-mono text-small [overflow-wrap:anywhere]">{children}</dd>
    </>
  )
}

export function Isolation() {
  const doctor = useAnswer('host.doctor', {})
  const info = useAnswer('host.info', {})
  if (doctor.error !== null) return <Trouble error={doctor.error} onRetry={() => void doctor.refetch()} />
  if (doctor.data === undefined) return <Reading what="Looking at this computer…" />
  return (
    <>
      <ul className="space-y-3">
        {doctor.data.levels
          .toSorted((a, b) => b.level - a.level)
          .map((report) => (
            <LevelRow key={report.level} report={report} />
          ))}
      </ul>
      <dl className="selectable grid grid-cols-[9rem_1fr] gap-x-3 gap-y-1">
        <Fact name="System">
          <Plain>{`${doctor.data.platform}, ${doctor.data.kernel}`}</Plain>
        </Fact>
        <Fact name="Data folder">
          <Plain>{doctor.data.data_dir}</Plain>
        </Fact>
        {Object.entries(doctor.data.limits).map(([name, how]) => (
          <Fact key={name} name={`Limit: ${name}`}>
            <Plain>{how}</Plain>
          </Fact>
        ))}
        {info.data !== undefined && <Fact name="Orangery">{info.data.version}</Fact>}
      </dl>
    </>
  )
}
