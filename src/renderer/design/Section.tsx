import type { ReactNode } from 'react'

/** A titled part of a page, with what can be done about all of it at its right. */
export function Section({
  title,
  hint,
  aside,
  children,
}: {
  title: string
  hint?: ReactNode
  aside?: ReactNode
  children: ReactNode
}) {
  return (
    <section aria-label={title} className="space-y-2.5">
      <div className="flex items-end gap-3">
        <div className="min-w-0 flex-1">
          <h2 className="text-large font-semibold tracking-tight">{title}</h2>
          {hint !== undefined && <p className="text-small text-ink-faint">{hint}</p>}
        </div>
        {aside}
      </div>
      {children}
    </section>
  )
}

/** Rows in one frame. Says what it would hold while there is nothing. */
export function Rows({ empty, children }: { empty: ReactNode; children: readonly ReactNode[] }) {
  return (
    <ul className="divide-y divide-line overflow-hidden rounded-lg bg-raised shadow-[0_0_0_1px_var(--line)]">
      {children}
      {children.length === 0 && <li className="px-4 py-3 text-ink-faint">{empty}</li>}
    </ul>
  )
}

/** What is shown while an answer takes its time. */
export function Reading({ what }: { what: string }) {
  return (
    <p
      role="status"
      className="fade flex items-center gap-2 py-2 text-ink-faint [animation-delay:250ms] [animation-fill-mode:backwards]"
    >
      <span className="ripple size-1.5 rounded-full bg-live" />
      {what}
    </p>
  )
}
