import { useIsMutating } from '@tanstack/react-query'
import { useEffect, useState } from 'react'

/** A line along the top edge while something a person asked for takes longer than a moment. */
export function Busy() {
  const pending = useIsMutating() > 0
  const [shown, setShown] = useState(false)
  useEffect(() => {
    if (!pending) {
      setShown(false)
      return undefined
    }
    const timer = setTimeout(() => setShown(true), 400)
    return () => clearTimeout(timer)
  }, [pending])
  if (!shown) return null
  return (
    <div
      role="progressbar"
      aria-label="Working"
      className="pointer-events-none fixed inset-x-0 top-0 z-60 h-0.5 overflow-hidden"
    >
      <div className="passing h-full w-1/3 rounded-full bg-accent" />
    </div>
  )
}
