import { CircleCheck, CircleX } from 'lucide-react'
import { useMemo } from 'react'
import { declaredEqualsActualSchema } from '../../shared/effective.ts'
import type { LoggedEvent } from '../../shared/events.ts'
import { Disclosure } from '../design/Disclosure.tsx'
import { Plain } from '../text/Plain.tsx'
import { PlanList } from './PlanList.tsx'
import { planLines } from './planLines.ts'

/** What the sandbox was made of, and what was seen from inside before the agent's first instruction. */
export function Plan({ events, effective }: { events: readonly LoggedEvent[]; effective: unknown }) {
  const text = useMemo(
    () => events.flatMap(({ event }) => (event.type === 'SandboxReady' ? [event.plan] : [])).at(-1),
    [events],
  )
  const logged = events.flatMap(({ event }) => (event.type === 'SelfProbe' ? [event.result] : [])).at(-1)
  const stored = declaredEqualsActualSchema.safeParse(
    (effective as { declared_equals_actual?: unknown } | null)?.declared_equals_actual,
  )
  const checks = stored.data?.checks ?? logged?.checks ?? []
  const lines = text === undefined ? [] : planLines(text)
  if (lines.length === 0 && checks.length === 0) return null
  return (
    <section aria-label="Sandbox">
      <h2 className="mb-2 text-large font-semibold">Sandbox</h2>
      <div className="space-y-2">
        {lines.length > 0 && (
          <Disclosure title={`The plan it was made from, ${lines.length} lines`}>
            <PlanList lines={lines} />
          </Disclosure>
        )}
        {checks.length > 0 && (
          <Disclosure
            title={
              checks.every((check) => check.ok)
                ? `Seen from inside as planned, ${checks.length} ${checks.length === 1 ? 'check' : 'checks'}`
                : `Seen from inside, ${checks.filter((check) => !check.ok).length} of ${checks.length} not as planned`
            }
          >
            <ul className="selectable max-h-96 space-y-0.5 overflow-y-auto rounded-lg bg-sunken px-3 py-2 text-small shadow-[inset_0_0_0_1px_var(--line)]">
              {checks.map((check) => (
                <li key={check.name} className="flex gap-2">
                  {check.ok ? (
                    <CircleCheck size={13} aria-label="as planned" className="mt-0.5 shrink-0 text-good" />
                  ) : (
                    <CircleX size={13} aria-label="not as planned" className="mt-0.5 shrink-0 text-bad" />
                  )}
                  <span className="min-w-0 [overflow-wrap:anywhere] text-ink-soft">
                    <Plain>{check.name}</Plain>{' '}
                    <span className="text-ink-faint">
                      <Plain>
                        {check.ok
                          ? String(check.actual)
                          : `planned ${String(check.declared)}, seen ${String(check.actual)}`}
                      </Plain>
                    </span>
                  </span>
                </li>
              ))}
            </ul>
          </Disclosure>
        )}
      </div>
    </section>
  )
}
