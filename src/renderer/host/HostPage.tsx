import { Boxes, Cpu, HardDrive, KeyRound, SlidersHorizontal } from 'lucide-react'
import { Tabs } from 'radix-ui'
import type { ReactNode } from 'react'
import { Tab, TabList } from '../design/Tabs.tsx'
import { go, type HostTab } from '../shell/route.ts'
import { Approvals } from './Approvals.tsx'
import { Isolation } from './Isolation.tsx'
import { Settings } from './Settings.tsx'
import { Storage } from './Storage.tsx'
import { Workspaces } from './Workspaces.tsx'

const hints: Readonly<Record<HostTab, string>> = {
  isolation: 'What can keep an agent inside, and what is missing for more.',
  settings: 'Which values hold, and where each of them came from.',
  approvals: 'What agents get without asking you again.',
  storage: 'What dispatches cost on disk, and how much of their logs is kept.',
  workspaces: 'Worktrees and sandboxes, what was put away, and what belongs to nothing.',
}

const pages: readonly { tab: HostTab; label: string; icon: typeof Cpu; page: () => ReactNode }[] = [
  { tab: 'isolation', label: 'Isolation', icon: Cpu, page: () => <Isolation /> },
  { tab: 'settings', label: 'Settings', icon: SlidersHorizontal, page: () => <Settings /> },
  { tab: 'approvals', label: 'Approvals', icon: KeyRound, page: () => <Approvals /> },
  { tab: 'storage', label: 'Storage', icon: HardDrive, page: () => <Storage /> },
  { tab: 'workspaces', label: 'Workspaces', icon: Boxes, page: () => <Workspaces /> },
]

export function HostPage({ tab }: { tab: HostTab }) {
  return (
    <Tabs.Root
      value={tab}
      onValueChange={(next) => go({ page: 'host', tab: next as HostTab })}
      className="flex h-full min-h-0 flex-col"
    >
      <header className="shrink-0 border-b border-line px-5 pt-3.5 tight:px-4">
        <h1 className="text-title font-semibold tracking-tight">This computer</h1>
        <p className="mt-1 text-ink-soft">{hints[tab]}</p>
        <TabList className="mt-1.5">
          {pages.map(({ tab: value, label, icon: Icon }) => (
            <Tab key={value} value={value} icon={<Icon size={14} />}>
              {label}
            </Tab>
          ))}
        </TabList>
      </header>
      {pages.map(({ tab: value, page }) => (
        <Tabs.Content
          key={value}
          value={value}
          className="min-h-0 flex-1 overflow-y-auto outline-none"
          tabIndex={-1}
        >
          <div className="mx-auto max-w-3xl space-y-8 px-6 py-6 tight:px-4">{page()}</div>
        </Tabs.Content>
      ))}
    </Tabs.Root>
  )
}
