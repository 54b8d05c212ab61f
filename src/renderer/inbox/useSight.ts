import { useEffect, useLayoutEffect, useRef, type RefObject } from 'react'

/** Less than a person needs to see that another one stands there. */
const unseenMs = 300

const cardsIn = (pane: Element) => [...pane.querySelectorAll<HTMLElement>('[data-request]')]

/** As much of it as fits is shown, and not under what is said in passing. */
function isShown(card: Element, pane: Element): boolean {
  const { top, bottom } = card.getBoundingClientRect()
  const room = pane.getBoundingClientRect()
  const floor = room.bottom - (Number.parseFloat(getComputedStyle(pane).scrollPaddingBottom) || 0)
  const shown = Math.min(bottom, floor) - Math.max(top, room.top)
  return shown >= Math.min(bottom - top, floor - room.top) - 1
}

/**
 * Keeps the card that the keys mean in sight, and knows whether a person can have seen it. A key must not answer what
 * nobody saw: a card that is scrolled off, one that was scrolled here just now, or one that moved up because the one
 * before it vanished. (escape: answered-unseen)
 */
export function useSight(
  standing: string | null,
  chosen: string | null,
): { readonly pane: RefObject<HTMLDivElement | null>; isSeen(): boolean; bring(): void } {
  const pane = useRef<HTMLDivElement>(null)
  const inSight = useRef<Map<string, number> | null>(null)
  const stands = useRef<{ readonly id: string | null; readonly since: number }>({
    id: null,
    since: -Infinity,
  })

  /** Since when each card is in sight. What was there when the page was opened is what one opened it for. */
  const look = () => {
    const element = pane.current
    const former = inSight.current
    const now = former === null ? -Infinity : performance.now()
    const shown = element === null ? [] : cardsIn(element).filter((card) => isShown(card, element))
    inSight.current = new Map(
      shown.map(({ dataset: { request = '' } }) => [request, former?.get(request) ?? now]),
    )
  }
  const bring = () => {
    const cards = pane.current === null ? [] : cardsIn(pane.current)
    cards.find(({ dataset }) => dataset['request'] === standing)?.scrollIntoView({ block: 'nearest' })
    look()
  }

  useLayoutEffect(() => {
    const { id } = stands.current
    if (id !== standing) stands.current = { id: standing, since: id === null ? -Infinity : performance.now() }
    // Who has scrolled away from it reads something else, which must not jump from under his hand.
    const isFollowed = id !== null && inSight.current?.has(id)
    if (isFollowed || (id !== standing && standing === chosen)) bring()
    else look()
  })
  const isEmpty = standing === null
  const latest = useRef(look)
  latest.current = look
  useEffect(() => {
    const element = pane.current
    if (element === null) return undefined
    const onMove = () => latest.current()
    const sizes = new ResizeObserver(onMove)
    sizes.observe(element)
    element.addEventListener('scroll', onMove, { passive: true })
    return () => {
      sizes.disconnect()
      element.removeEventListener('scroll', onMove)
    }
  }, [isEmpty])

  const isSeen = () => {
    look()
    const since = standing === null ? undefined : inSight.current?.get(standing)
    const moment = performance.now() - unseenMs
    return since !== undefined && since <= moment && (standing === chosen || stands.current.since <= moment)
  }
  return { pane, isSeen, bring }
}
