import { ChevronRight } from 'lucide-react'
import type { ReactNode } from 'react'

/** Something for whoever wants to know, out of the way of everybody else. */
export function Disclosure({
  title,
  className = '',
  children,
}: {
  title: ReactNode
  className?: string
  children: ReactNode
}) {
  return (
    <details className={`group ${className}`}>
      <summary className="flex w-fit list-none items-center gap-1 rounded-sm text-small text-ink-soft hover:text-ink">
        <ChevronRight size={14} className="shrink-0 transition-transform group-open:rotate-90" />
        {title}
      </summary>
      <div className="mt-2">{children}</div>
    </details>
  )
}
