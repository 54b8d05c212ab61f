import type { Client } from '../shared/api.ts'
import type { DispatchRow } from '../shared/dispatch.ts'
import type { BoundaryRequest } from '../shared/escalation.ts'

export type Waiting = {
  readonly request: BoundaryRequest
  /** Null where its dispatch is gone by now. */
  readonly row: Pick<DispatchRow, 'boundary' | 'roots'> | null
}

/** What waits for a person, each with the dispatch that it is about. */
export async function readInbox(client: Client): Promise<readonly Waiting[]> {
  const requests = await client.call('boundary.inbox', {})
  const ids = [...new Set(requests.map(({ dispatch }) => dispatch))]
  const rows = await Promise.all(ids.map((id) => client.call('dispatch.get', { id }).catch(() => null)))
  return requests.map((request) => ({ request, row: rows[ids.indexOf(request.dispatch)] ?? null }))
}

/** What waits, and from then on whatever comes: each once, until nobody reads any more. */
export async function* followInbox(client: Client): AsyncGenerator<Waiting> {
  let known = new Set<string>()
  // First listened, then looked: nothing comes between the two.
  const changes = client.open('changes', {})[Symbol.asyncIterator]()
  do {
    const inbox = await readInbox(client)
    for (const waiting of inbox) if (!known.has(waiting.request.id)) yield waiting
    known = new Set(inbox.map(({ request }) => request.id))
  } while ((await changes.next()).done !== true)
}
