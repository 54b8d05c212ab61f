import type { Channel } from './messages.ts'

type End = { message: (text: string) => void; close: () => void; early: string[] | null }

/** Two ends of a channel within one process: the in-process transport, speaking the same messages. */
export function channelPair(): readonly [Channel, Channel] {
  const ends: [End, End] = [
    { message: () => {}, close: () => {}, early: [] },
    { message: () => {}, close: () => {}, early: [] },
  ]
  let open = true
  const channel = (own: End, other: End): Channel => ({
    send(text) {
      queueMicrotask(() => {
        if (!open) return
        if (other.early === null) other.message(text)
        else other.early.push(text)
      })
    },
    onMessage(listener) {
      own.message = listener
      const early = own.early ?? []
      own.early = null
      for (const text of early) listener(text)
    },
    onClose(listener) {
      own.close = listener
    },
    close() {
      if (!open) return
      open = false
      ends[0].close()
      ends[1].close()
    },
  })
  return [channel(ends[0], ends[1]), channel(ends[1], ends[0])]
}
