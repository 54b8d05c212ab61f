import { ArrowLeft, Inbox } from 'lucide-react'
import { Tooltip } from 'radix-ui'
import { useCallback, useEffect, useRef, useState } from 'react'
import { useChanges } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { Toaster } from '../design/Toaster.tsx'
import { Trouble } from '../design/Trouble.tsx'
import { DispatchPage } from '../dispatches/DispatchPage.tsx'
import { useDispatches } from '../dispatches/useDispatches.ts'
import { groupOf, isWorktreePath, newestTurns } from '../dispatches/words.ts'
import { HostPage } from '../host/HostPage.tsx'
import { InboxPage } from '../inbox/InboxPage.tsx'
import { useInbox } from '../inbox/useInbox.ts'
import { recentCommands } from '../spawn/again.ts'
import { emptyForm, type SpawnForm } from '../spawn/form.ts'
import { SpawnContext, type OpenSpawn } from '../spawn/SpawnContext.ts'
import { SpawnDialog } from '../spawn/SpawnDialog.tsx'
import { Busy } from './Busy.tsx'
import { Home } from './Home.tsx'
import { KeysDialog } from './KeysDialog.tsx'
import { Lost } from './Lost.tsx'
import { go, useRoute } from './route.ts'
import { Sidebar } from './Sidebar.tsx'
import { useKeys } from './useKeys.ts'

/** Where there is no room for the list beside the page, this leads back to it. */
function BackBar({ asking }: { asking: number }) {
  return (
    <nav
      aria-label="Back"
      className="hidden h-10 shrink-0 items-center justify-between border-b border-line px-2 narrow:flex"
    >
      <Button look="quiet" icon={<ArrowLeft size={15} />} onClick={() => go({ page: 'home' })}>
        Dispatches
      </Button>
      {asking > 0 && (
        <Button look="quiet" icon={<Inbox size={15} />} onClick={() => go({ page: 'inbox' })}>
          {asking} asking
        </Button>
      )}
    </nav>
  )
}

export function Window() {
  useChanges()
  const route = useRoute()
  const list = useDispatches()
  const requests = useInbox()
  const [spawning, setSpawning] = useState<SpawnForm | null>(null)
  const unfinished = useRef<SpawnForm | null>(null)
  const isGiven = useRef(false)
  const [showKeys, setShowKeys] = useState(false)
  useKeys({
    n: () => openSpawn(),
    i: () => go({ page: 'inbox' }),
    '?': () => setShowKeys(true),
  })
  const rows = list.data ?? []
  const asking = new Set<string>(requests.map((request) => request.dispatch))
  const later = newestTurns(rows)
  const waiting = rows.filter((row) => groupOf(row, asking, later) === 'waiting').map((row) => row.id)
  const here = route.page === 'dispatch' ? rows.find((row) => row.id === route.id) : rows[0]
  const atHome = route.page === 'home'

  const own = [...(here === undefined ? [] : [here]), ...rows].map((row) => row.roots[0])
  // The tree of a worktree is ours; one begins in a folder of one's own.
  const startAt = own.find((root) => root !== undefined && !isWorktreePath(root)) ?? ''

  /** Begins where one is, with what ran there last; what was filled in and not started is still there. */
  const openSpawn: OpenSpawn = (form) => {
    const usual = { ...emptyForm, roots: [startAt], command: recentCommands(rows, startAt)[0] ?? '' }
    isGiven.current = form !== undefined
    setSpawning(form === undefined ? (unfinished.current ?? usual) : { ...emptyForm, ...form })
  }
  const latestOpen = useRef(openSpawn)
  latestOpen.current = openSpawn
  const steadyOpen = useCallback<OpenSpawn>((form) => latestOpen.current(form), [])
  useEffect(() => {
    window.orangery?.onCommand((command) => (command === 'spawn' ? latestOpen.current() : setShowKeys(true)))
  }, [])

  return (
    <Tooltip.Provider delayDuration={500} skipDelayDuration={200}>
      <SpawnContext.Provider value={steadyOpen}>
        <div className="flex h-full flex-col">
          <Lost />
          <div className="flex min-h-0 flex-1 narrow:flex-col">
            <Sidebar
              rows={rows}
              requests={requests}
              onSpawn={() => openSpawn()}
              className={atHome ? `narrow:w-full ${rows.length > 0 ? 'narrow:flex-1' : ''}` : 'narrow:hidden'}
            />
            <main
              className={`glass my-2 mr-2 flex min-h-0 min-w-0 flex-1 flex-col overflow-hidden rounded-xl narrow:m-0 narrow:rounded-none ${atHome && rows.length > 0 ? 'narrow:hidden' : ''}`}
            >
              {!atHome && <BackBar asking={requests.length} />}
              <div className="min-h-0 flex-1">
                {route.page === 'dispatch' && (
                  <DispatchPage
                    key={route.id}
                    id={route.id}
                    tab={route.tab}
                    requests={requests.filter((request) => request.dispatch === route.id)}
                  />
                )}
                {route.page === 'host' && <HostPage tab={route.tab} />}
                {route.page === 'inbox' && <InboxPage requests={requests} rows={rows} />}
                {atHome && list.data === undefined && list.error !== null && (
                  <div className="grid h-full place-items-center p-6">
                    <Trouble error={list.error} onRetry={() => void list.refetch()} />
                  </div>
                )}
                {atHome && list.data !== undefined && (
                  <Home first={rows.length === 0} waiting={waiting} onSpawn={() => openSpawn()} />
                )}
              </div>
            </main>
          </div>
        </div>
        <Busy />
        {spawning !== null && (
          <SpawnDialog
            startAt={startAt}
            first={spawning}
            rows={rows}
            onClose={(form) => {
              // What another page had filled in is not what the person began.
              if (!isGiven.current) unfinished.current = form
              setSpawning(null)
            }}
          />
        )}
        <KeysDialog open={showKeys} onClose={() => setShowKeys(false)} />
        <Toaster />
      </SpawnContext.Provider>
    </Tooltip.Provider>
  )
}
