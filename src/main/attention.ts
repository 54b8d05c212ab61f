import type { Client } from '../shared/api.ts'
import { isTerminal, type DispatchRow } from '../shared/dispatch.ts'

export type Notice = { readonly id: string; readonly title: string; readonly body: string }

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

export const isWaiting = (row: DispatchRow): boolean =>
  isTerminal(row.status) && row.changeset?.state === 'review'

/** Follows the engine for the tray and for notifications. */
export async function watchDispatches(
  client: Client,
  signal: AbortSignal,
  tell: (notice: Notice) => void,
  count: (counts: { waiting: number; running: number }) => void,
): Promise<void> {
  const known = new Map<string, DispatchRow>()
  const look = async (quiet: boolean) => {
    const rows = await client.call('dispatch.list', { limit: 200 })
    for (const row of rows) {
      const notice = quiet ? null : noticeOf(known.get(row.id), row)
      known.set(row.id, row)
      if (notice !== null) tell(notice)
    }
    count({
      waiting: rows.filter(isWaiting).length,
      running: rows.filter((row) => !isTerminal(row.status)).length,
    })
  }
  const changes = client.open('changes', {}, signal)
  await look(true)
  for await (const _ of changes) await look(false)
}
