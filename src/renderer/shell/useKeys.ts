import { useEffect, useRef, useSyncExternalStore } from 'react'

const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement &&
  (target.isContentEditable || target.closest('input, textarea, select, .xterm') !== null)

/** A key that is held down goes on moving; whatever else it does it does once. */
const moving = new Set(['j', 'k', 'h', 'l', 'ArrowUp', 'ArrowDown'])

export type KeyMap = Readonly<Record<string, () => void>>

/** Who opened last hears a key first: a review's `/` comes before that of the list beside it. */
const listening: { current: KeyMap }[] = []
const watching = new Set<() => void>()
let changes = 0

function told(): void {
  changes++
  for (const tell of watching) tell()
}

function watch(tell: () => void): () => void {
  watching.add(tell)
  return () => watching.delete(tell)
}

function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return
  if (isTyping(event.target)) return
  // On a button it presses the button.
  if (
    event.key === 'Enter' &&
    event.target instanceof HTMLElement &&
    event.target.closest('button, a') !== null
  )
    return
  if (document.querySelector('[role="dialog"], [role="alertdialog"], [role="menu"]') !== null) return
  const act = listening.findLast(({ current }) => current[event.key] !== undefined)?.current[event.key]
  if (act === undefined) return
  event.preventDefault()
  if (event.repeat && !moving.has(event.key)) return
  act()
}

/** Single keys, out of the way while someone types or a dialog is open. Says which of them it would hear now. */
export function useKeys(keys: KeyMap): (key: string) => boolean {
  const latest = useRef(keys)
  latest.current = keys
  useSyncExternalStore(watch, () => changes)
  useEffect(() => {
    if (listening.push(latest) === 1) window.addEventListener('keydown', onKey)
    told()
    return () => {
      listening.splice(listening.indexOf(latest), 1)
      if (listening.length === 0) window.removeEventListener('keydown', onKey)
      told()
    }
  }, [])
  return (key) => listening.findLast(({ current }) => current[key] !== undefined) === latest
}
