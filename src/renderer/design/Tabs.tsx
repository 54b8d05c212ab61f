import { Tabs } from 'radix-ui'
import type { ReactNode } from 'react'

/** One of several views of the same thing, underlined while it is shown. */
export function Tab({ value, icon, children }: { value: string; icon?: ReactNode; children: ReactNode }) {
  return (
    <Tabs.Trigger
      value={value}
      className="relative flex h-9 shrink-0 items-center gap-1.5 px-2.5 text-ink-soft outline-offset-[-3px] hover:text-ink data-[state=active]:font-medium data-[state=active]:text-ink data-[state=active]:after:absolute data-[state=active]:after:inset-x-2 data-[state=active]:after:bottom-[-1px] data-[state=active]:after:h-0.5 data-[state=active]:after:rounded-full data-[state=active]:after:bg-accent"
    >
      {icon}
      {children}
    </Tabs.Trigger>
  )
}

export function TabList({ children, className = '' }: { children: ReactNode; className?: string }) {
  return (
    <Tabs.List className={`-ml-2.5 flex gap-1 overflow-x-auto [scrollbar-width:none] ${className}`}>
      {children}
    </Tabs.List>
  )
}
