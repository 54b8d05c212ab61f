import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

/** The connections of a sandbox and what leads out of it. */
export type Ways = {
  readonly clients: Iterable<Socket>
  readonly upstreams: Iterable<Socket>
  /** Being resolved or dialled. */
  readonly opening: number
}

/** Connections that wait in the kernel to be taken, and listeners on their way to us, are here by then. */
const settleMs = 20
const lookMs = 5
/** Without a byte that moves. */
const stallMs = 5000
const mostMs = 30_000

const isSaid = (client: Socket) => client.destroyed || (client.readableEnded && client.readableLength === 0)
const isSent = (upstream: Socket) => upstream.destroyed || upstream.writableLength === 0

function unsent({ clients, upstreams, opening }: Ways): boolean {
  return opening > 0 || ![...clients].every(isSaid) || ![...upstreams].every(isSent)
}

/** Changes whenever something moves. */
function sightOf({ clients, upstreams, opening }: Ways): string {
  const said = [...clients].map(({ bytesRead, readableLength }) => `${bytesRead}-${readableLength}`)
  return [opening, ...said, '/', ...[...upstreams].map(({ writableLength }) => writableLength)].join()
}

/**
 * Waits until what the programs of a sandbox said before they ended is with the kernel, as it would be of one that runs
 * without us: whoever writes and exits has been told that his bytes are taken.
 */
export async function lastWords(waysNow: () => Ways, enough: AbortSignal): Promise<void> {
  const begun = Date.now()
  let [sight, moved] = ['', begun]
  await delay(settleMs)
  while (!enough.aborted && unsent(waysNow())) {
    const now = Date.now()
    const next = sightOf(waysNow())
    if (next !== sight) [sight, moved] = [next, now]
    if (now - moved > stallMs || now - begun > mostMs) return
    await delay(lookMs)
  }
}

/** Ends connections in order, so that the kernel still delivers what it has: a reset would throw that away. */
export async function partInOrder(upstreams: Iterable<Socket>): Promise<void> {
  await Promise.all(
    [...upstreams].filter(isSent).map(async (upstream) => {
      if (upstream.destroyed) return
      // Closing on unread bytes would be a reset.
      upstream.resume()
      await Promise.race([new Promise<void>((resolve) => void upstream.end(resolve)), delay(settleMs)])
      upstream.destroy()
    }),
  )
}
