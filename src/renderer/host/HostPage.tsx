import { CircleAlert, CircleCheck } from 'lucide-react'
import type { ReactNode } from 'react'
import type { LevelReport } from '../../shared/doctor.ts'
import { useAnswer } from '../client/queries.ts'
import { Badge } from '../design/Badge.tsx'
import { LevelIcon } from '../dispatches/Badges.tsx'
import { levelWords } from '../dispatches/words.ts'
import { DiskUse } from './DiskUse.tsx'
import { Plain } from '../text/Plain.tsx'

function LevelRow({ report }: { report: LevelReport }) {
  return (
    <li className="rounded-lg bg-raised p-4 shadow-[0_0_0_1px_var(--line)]">
      <div className="flex items-center gap-2.5">
        <LevelIcon level={report.level} size={16} />
        <span className="font-medium">{levelWords[report.level].label}</span>
        <span className="text-ink-faint">level {report.level}</span>
        <span className="flex-1" />
        {report.driver !== null && (
          <span className="font-mono text-micro text-ink-faint">
            <Plain>
              {report.workspace === null ? report.driver : `${report.driver}, ${report.workspace}`}
            </Plain>
          </span>
        )}
        <Badge tone={report.available ? 'good' : 'neutral'}>
          {report.available ? 'Available' : 'Not available'}
        </Badge>
      </div>
      <ul className="selectable space-y-1.5 not-empty:mt-3">
        {report.checks.map((check) => (
          <li key={check.name} className="flex gap-2 text-small">
            {check.ok ? (
              <CircleCheck size={14} className="mt-0.5 shrink-0 text-good" />
            ) : (
              <CircleAlert size={14} className="mt-0.5 shrink-0 text-bad" />
            )}
            <span className="min-w-0 [overflow-wrap:anywhere]">
              <span className="text-ink-soft">
                <Plain>{check.name}</Plain>
              </span>{' '}
              <span className="text-ink-faint">
                <Plain>{check.detail}</Plain>
              </span>
              {!check.ok && check.fix !== null && (
                <code className="mt-0.5 block font-mono text-micro text-ink">
                  <Plain>{check.fix}</Plain>
                </code>
              )}
            </span>
          </li>
        ))}
      </ul>
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

export function HostPage() {
  const doctor = useAnswer('host.doctor', {})
  const info = useAnswer('host.info', {})
  return (
    <div className="h-full overflow-y-auto">
      <div className="mx-auto max-w-3xl space-y-6 px-6 py-8">
        <header>
          <h1 className="text-display font-semibold tracking-tight">This computer</h1>
          <p className="mt-1 text-ink-soft">What can keep an agent inside, and what is missing for more.</p>
        </header>
        <ul className="space-y-3">
          {doctor.data?.levels
            .toSorted((a, b) => b.level - a.level)
            .map((report) => (
              <LevelRow key={report.level} report={report} />
            ))}
        </ul>
        {doctor.error !== null && (
          <p className="text-bad">
            <Plain>{doctor.error.message}</Plain>
          </p>
        )}
        <DiskUse />
        {doctor.data !== undefined && (
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
        )}
      </div>
    </div>
  )
}
