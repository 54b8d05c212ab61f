import { Unplug } from 'lucide-react'
import { useConnection, useConnectionState } from '../client/context.tsx'
import { Button } from '../design/Button.tsx'

// A restarted host knows none of the sessions of the one before it.
const isBrowser = window.orangery === undefined

export function Lost() {
  const connection = useConnection()
  const state = useConnectionState()
  if (state.status !== 'lost') return null
  return (
    <div role="alert" className="flex shrink-0 items-center gap-3 bg-warn-wash px-4 py-2 text-warn">
      <Unplug size={15} className="shrink-0" />
      <span className="min-w-0 flex-1">
        <strong className="font-medium">Connection to Orangery lost.</strong> What runs goes on running; this
        window shows the last state it knew and reconnects by itself.
        {isBrowser && ' If you start orangery serve again, open the address it prints.'}
      </span>
      <Button size="small" onClick={connection.retryNow}>
        Try now
      </Button>
    </div>
  )
}
