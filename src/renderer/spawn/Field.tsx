import { CircleAlert } from 'lucide-react'
import type { ReactNode } from 'react'
import { FixText } from '../design/FixText.tsx'
import { Plain } from '../text/Plain.tsx'

export const inputLook =
  'h-9 w-full rounded-lg bg-raised px-3 shadow-[0_0_0_1px_var(--line-strong)] outline-none focus:shadow-[0_0_0_1.5px_var(--accent-line)] aria-invalid:shadow-[0_0_0_1.5px_var(--bad-line)]'

/** What is wrong with one field, and what helps. */
export type FieldTrouble = { readonly text: string; readonly fix?: string | null }

/** For the control itself: that it is at fault, and where that is said. */
export const markedBy = (trouble: FieldTrouble | undefined, id: string) =>
  trouble === undefined ? {} : ({ 'aria-invalid': true, 'aria-describedby': id } as const)

export function FieldMessage({ id, trouble }: { id: string; trouble: FieldTrouble | undefined }) {
  if (trouble === undefined) return null
  return (
    <p id={id} role="alert" className="selectable flex gap-1.5 text-small text-bad">
      <CircleAlert size={14} className="mt-0.5 shrink-0" />
      <span className="min-w-0 [overflow-wrap:anywhere]">
        <Plain>{trouble.text}</Plain>
        {trouble.fix != null && (
          <>
            {' '}
            <span className="text-ink-soft">
              <FixText text={trouble.fix} />
            </span>
          </>
        )}
      </span>
    </p>
  )
}

export function Field({ label, hint, children }: { label: string; hint?: ReactNode; children: ReactNode }) {
  return (
    <div className="min-w-0 space-y-1.5">
      <div className="flex flex-wrap items-baseline gap-x-2">
        <span className="font-medium">{label}</span>
        {hint !== undefined && <span className="min-w-0 text-small text-ink-faint">{hint}</span>}
      </div>
      {children}
    </div>
  )
}
