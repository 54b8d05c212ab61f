import { Tooltip } from 'radix-ui'
import { useEffect, useState } from 'react'
import { useAnswer, useChanges } from '../client/queries.ts'
import { Toaster } from '../design/Toaster.tsx'
import { DispatchPage } from '../dispatches/DispatchPage.tsx'
import { groupOf } from '../dispatches/words.ts'
import { HostPage } from '../host/HostPage.tsx'
import { InboxPage } from '../inbox/InboxPage.tsx'
import { SpawnDialog } from '../spawn/SpawnDialog.tsx'
import { Home } from './Home.tsx'
import { KeysDialog } from './KeysDialog.tsx'
import { Lost } from './Lost.tsx'
import { useRoute } from './route.ts'
import { Sidebar } from './Sidebar.tsx'
import { useKeys } from './useKeys.ts'

export function Window() {
  useChanges()
  const route = useRoute()
  const list = useAnswer('dispatch.list', { limit: 500 })
  const inbox = useAnswer('boundary.inbox', {})
  const [spawning, setSpawning] = useState(false)
  const [showKeys, setShowKeys] = useState(false)
  useKeys({ n: () => setSpawning(true), '?': () => setShowKeys(true) })
  useEffect(() => {
    window.orangery?.onCommand((command) => (command === 'spawn' ? setSpawning(true) : setShowKeys(true)))
  }, [])
  const rows = list.data ?? []
  const asking = new Set<string>(inbox.data?.map((request) => request.dispatch))
  const waiting = rows.filter((row) => groupOf(row, asking) === 'waiting').map((row) => row.id)
  const here = route.page === 'dispatch' ? rows.find((row) => row.id === route.id) : rows[0]

  return (
    <Tooltip.Provider delayDuration={500} skipDelayDuration={200}>
      <div className="flex h-full flex-col">
        <Lost />
        <div className="flex min-h-0 flex-1">
          <Sidebar rows={rows} requests={inbox.data ?? []} onSpawn={() => setSpawning(true)} />
          <main className="glass my-2 mr-2 min-w-0 flex-1 overflow-hidden rounded-xl">
            {route.page === 'dispatch' && (
              <DispatchPage
                key={route.id}
                id={route.id}
                tab={route.tab}
                requests={(inbox.data ?? []).filter((request) => request.dispatch === route.id)}
              />
            )}
            {route.page === 'host' && <HostPage />}
            {route.page === 'inbox' && <InboxPage requests={inbox.data ?? []} rows={rows} />}
            {route.page === 'home' && list.data !== undefined && (
              <Home first={rows.length === 0} waiting={waiting} onSpawn={() => setSpawning(true)} />
            )}
          </main>
        </div>
      </div>
      <SpawnDialog open={spawning} startAt={here?.roots[0] ?? null} onClose={() => setSpawning(false)} />
      <KeysDialog open={showKeys} onClose={() => setShowKeys(false)} />
      <Toaster />
    </Tooltip.Provider>
  )
}
