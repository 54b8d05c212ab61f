import type { Client } from '../shared/api.ts'
import { isTerminal, type DispatchRow } from '../shared/dispatch.ts'
import type { BoundaryRequest } from '../shared/escalation.ts'

export type Notice = {
  /** The dispatch it is about. */
  readonly id: string
  readonly title: string
  readonly body: string
  /** Where the desktop lets a notification carry buttons, it can be answered there. */
  readonly request?: string
}

const nameOf = (row: DispatchRow) => row.name ?? row.prompt?.split('\n')[0] ?? row.command.join(' ')

/** What to tell the person about a dispatch that changed; null when it can wait until they look. */
export function noticeOf(before: DispatchRow | undefined, after: DispatchRow): Notice | null {
  const name = nameOf(after)
  if (before?.status === after.status) return null
  if (after.status === 'preflight_failed') {
    return { id: after.id, title: 'It did not start', body: `${name}\n${after.error ?? ''}`.trim() }
  }
  // What had ended before we looked is news to nobody.
  if (before === undefined || !isTerminal(after.status)) return null
  if (after.changeset?.state === 'review') {
    return {
      id: after.id,
      title: 'Waiting for your review',
      body: `${name}: ${after.changeset.files} changed`,
    }
  }
  return after.status === 'completed'
    ? null
    : { id: after.id, title: 'It ended early', body: `${name}: ${after.status}` }
}

export function noticeOfRequest(request: BoundaryRequest, row: DispatchRow | undefined): Notice {
  const asked = request.hosts.length > 0 ? request.hosts.join(', ') : request.to
  return {
    id: request.dispatch,
    request: request.id,
    title: `Asks for ${asked}`,
    body: [row === undefined ? '' : nameOf(row), request.why].filter(Boolean).join('\n'),
  }
}

/** How many changesets wait for a review: a later turn shows the changeset of the first, and it waits once. */
export const countWaiting = (rows: readonly DispatchRow[]): number =>
  new Set(
    rows.flatMap(({ status, changeset }) =>
      isTerminal(status) && changeset?.state === 'review' ? [changeset.id] : [],
    ),
  ).size

/** Follows the engine for the tray and for notifications. */
export async function watchDispatches(
  client: Client,
  signal: AbortSignal,
  tell: (notice: Notice) => void,
  count: (counts: { waiting: number; running: number }) => void,
): Promise<void> {
  const known = new Map<string, DispatchRow>()
  const asked = new Set<string>()
  const look = async (quiet: boolean) => {
    const rows = await client.call('dispatch.list', { limit: 200 })
    for (const row of rows) {
      const notice = quiet ? null : noticeOf(known.get(row.id), row)
      known.set(row.id, row)
      if (notice !== null) tell(notice)
    }
    const requests = await client.call('boundary.inbox', {})
    for (const request of requests) {
      if (asked.has(request.id)) continue
      asked.add(request.id)
      if (!quiet) tell(noticeOfRequest(request, known.get(request.dispatch)))
    }
    count({
      waiting: countWaiting(rows) + requests.length,
      running: rows.filter((row) => !isTerminal(row.status)).length,
    })
  }
  const changes = client.open('changes', {}, signal)
  await look(true)
  for await (const _ of changes) await look(false)
}
