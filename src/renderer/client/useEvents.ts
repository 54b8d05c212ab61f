import { useEffect, useState } from 'react'
import type { LoggedEvent } from '../../shared/events.ts'
import { useClient, useConnectionState } from './context.tsx'

/** The log of a dispatch, from its first line on and as it grows. */
export function useEvents(id: string): readonly LoggedEvent[] {
  const client = useClient()
  const connected = useConnectionState().status === 'open'
  const [events, setEvents] = useState<readonly LoggedEvent[]>([])
  useEffect(() => {
    if (!connected) return undefined
    const abort = new AbortController()
    let gathered: LoggedEvent[] = []
    let frame = 0
    const show = () => {
      frame = 0
      const batch = gathered
      gathered = []
      setEvents((former) => {
        const last = former.at(-1)?.seq ?? 0
        return [...former, ...batch.filter((event) => event.seq > last)]
      })
    }
    setEvents([])
    void (async () => {
      try {
        for await (const event of client.open('dispatch.events', { id }, abort.signal)) {
          gathered.push(event)
          if (frame === 0) frame = requestAnimationFrame(show)
        }
      } catch {
        // The page says elsewhere that the connection is lost; a log that cannot be read shows as empty.
      }
    })()
    return () => {
      abort.abort()
      cancelAnimationFrame(frame)
    }
  }, [client, connected, id])
  return events
}
