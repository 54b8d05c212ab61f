import { CircleAlert, CircleCheck, RotateCw, ShieldOff } from 'lucide-react'
import type { DispatchDetail } from '../../shared/dispatch.ts'
import type { SandboxLevel } from '../../shared/level.ts'
import { useAnswer } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { FixText } from '../design/FixText.tsx'
import { LevelIcon } from '../dispatches/Badges.tsx'
import { levelWords } from '../dispatches/words.ts'
import { formOf } from '../spawn/again.ts'
import { fill } from '../spawn/form.ts'
import { useSpawn } from '../spawn/SpawnContext.ts'
import { usePreflight } from '../spawn/usePreflight.ts'
import { Plain } from '../text/Plain.tsx'
import { isAboutLevel, reasonsOf } from './reasons.ts'

/** The strongest sandbox there is besides the one that failed; null where there is none. */
function otherSandbox(available: readonly SandboxLevel[], failed: SandboxLevel | null): SandboxLevel | null {
  return available.filter((level) => level > 0 && level !== failed).toSorted((a, b) => b - a)[0] ?? null
}

/**
 * Why nothing ran, what helps, and the ways on. Nothing is tried again or with less protection by itself: every way
 * leads to the form, where one sees what would start.
 */
export function DidNotStart({ detail }: { detail: DispatchDetail }) {
  const openSpawn = useSpawn()
  const doctor = useAnswer('host.doctor', {})
  const filled = fill(formOf(detail))
  const now = usePreflight(filled.ok ? filled.input : null)
  const reasons = reasonsOf(detail.error)
  const failing = now.report?.checks.filter((check) => !check.ok) ?? []
  const fixOf = (reason: string) =>
    failing.find((check) => reason === `${check.name}: ${check.detail}`)?.fix ?? null
  const isNew = failing.filter((check) => !reasons.includes(`${check.name}: ${check.detail}`))
  const wouldStart = now.report?.ok === true
  const aboutLevel = !wouldStart && reasons.some(isAboutLevel)
  const available = (doctor.data?.levels ?? []).filter((level) => level.available).map(({ level }) => level)
  const other = aboutLevel ? otherSandbox(available, detail.level) : null
  const bare = aboutLevel && detail.level !== 0

  return (
    <div className="flex-1 overflow-y-auto p-6 tight:p-4">
      <div className="mx-auto max-w-2xl space-y-4 pt-[8vh]">
        <header>
          <h2 className="text-title font-semibold tracking-tight">It did not start</h2>
          <p className="mt-0.5 text-ink-soft">Nothing ran and no file was touched.</p>
        </header>
        <ul
          aria-label="Reasons"
          className="selectable divide-y divide-line overflow-hidden rounded-lg bg-raised shadow-[0_0_0_1px_var(--line)]"
        >
          {[...reasons, ...isNew.map((check) => `${check.name}: ${check.detail}`)].map((reason) => (
            <li key={reason} className="flex gap-2.5 px-4 py-3">
              <CircleAlert size={15} className="mt-0.5 shrink-0 text-bad" />
              <span className="min-w-0 [overflow-wrap:anywhere]">
                <Plain>{reason}</Plain>
                {fixOf(reason) !== null && (
                  <span className="mt-0.5 block text-ink-soft">
                    <FixText text={fixOf(reason) ?? ''} />
                  </span>
                )}
              </span>
            </li>
          ))}
        </ul>
        {wouldStart && (
          <p className="flex items-center gap-2 text-good" role="status">
            <CircleCheck size={15} className="shrink-0" /> What was in the way is gone: it would start now.
          </p>
        )}
        <div className="flex flex-wrap gap-2">
          {other !== null && (
            <Button
              look="primary"
              icon={<LevelIcon level={other} size={14} />}
              onClick={() => openSpawn(formOf(detail, other))}
            >
              Run at level {other}, {levelWords[other].label}, instead…
            </Button>
          )}
          <Button
            look={wouldStart ? 'primary' : 'outline'}
            icon={<RotateCw size={13} />}
            onClick={() => openSpawn(formOf(detail))}
          >
            {wouldStart ? 'Run it now…' : 'Change and try again…'}
          </Button>
          {bare && (
            <Button
              look="dangerQuiet"
              icon={<ShieldOff size={14} />}
              onClick={() => openSpawn(formOf(detail, 0))}
              tip="Level 0: it runs with your own rights. You still confirm it in the form."
            >
              Run without a sandbox…
            </Button>
          )}
        </div>
      </div>
    </div>
  )
}
