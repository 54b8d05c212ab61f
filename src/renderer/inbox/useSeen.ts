import { useEffect, useRef } from 'react'

/** Less than a person needs to see that another one stands there. */
const unseenMs = 300

/**
 * Whether the one that stands there is the one a person meant: it came there by his own hand, or long enough ago. What
 * moved up because the one before it vanished must not be answered by a key meant for that.
 */
export function useSeen(standing: string | null, chosen: string | null): () => boolean {
  const seen = useRef<{ readonly id: string | null; readonly since: number }>({ id: null, since: -Infinity })
  useEffect(() => {
    const { id } = seen.current
    if (id !== standing) seen.current = { id: standing, since: id === null ? -Infinity : performance.now() }
  }, [standing])
  return () => standing === chosen || performance.now() - seen.current.since >= unseenMs
}
