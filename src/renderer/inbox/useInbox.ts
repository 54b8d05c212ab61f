import { useEffect, useState } from 'react'
import type { BoundaryRequest } from '../../shared/escalation.ts'
import { useAnswer } from '../client/queries.ts'

/** What waits for a person, over all agents. What nobody answered in time drops out by itself: no change tells of it. */
export function useInbox(): readonly BoundaryRequest[] {
  const { data = [] } = useAnswer('boundary.inbox', {})
  const [now, setNow] = useState(() => Date.now())
  const open = data.filter(({ expires_at: at }) => Date.parse(at) > now)
  const next = Math.min(...open.map(({ expires_at: at }) => Date.parse(at)))
  useEffect(() => {
    if (!Number.isFinite(next)) return undefined
    const timer = setTimeout(() => setNow(Date.now()), Math.max(0, next - Date.now()) + 50)
    return () => clearTimeout(timer)
  }, [next])
  return open
}
