import type { Client } from '../shared/api.ts'
import { boundaryRank, type BoundaryLevel } from '../shared/boundary.ts'
import { isTerminal, type DispatchRow } from '../shared/dispatch.ts'
import type { BoundaryRequest } from '../shared/escalation.ts'
import { opens } from '../shared/opens.ts'
import { showAll, showLines } from '../shared/visible.ts'

export type Notice = {
  /** The dispatch it is about; null: what asks for more, all of it. */
  readonly id: string | null
  readonly title: string
  readonly body: string
  readonly request?: string
  /** Where the desktop lets a notification carry buttons, the request can be answered there. */
  readonly isAnswerable?: boolean
  /** The boundary that its words speak from: an answer is one to them. */
  readonly shown?: BoundaryLevel
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

/** What an agent wrote is shown as what it is, and no longer than a notification is read. */
const longestWords = 200
const cut = (text: string) => (text.length > longestWords ? `${text.slice(0, longestWords)}…` : text)

/** Desktops cut what is longer themselves. */
const longestOpening = 160

/**
 * Level and hosts come before what the agent wrote, and a button stands only under all of them: who reads a host
 * alone must not give `full` with it. (escape: unnamed-level)
 */
export function noticeOfRequest(request: BoundaryRequest, row: DispatchRow | undefined): Notice {
  const now = row?.boundary ?? null
  const isForHosts = now !== null && request.hosts.length > 0 && boundaryRank(request.to) <= boundaryRank(now)
  const opening = showAll(opens(now, request).join('; '))
  return {
    id: request.dispatch,
    request: request.id,
    // Unknown is shown as the least there is.
    shown: now ?? 'readonly',
    isAnswerable: request.source !== 'config' && opening.length <= longestOpening,
    title:
      request.source === 'config'
        ? `Still ${request.to}, beyond your config`
        : `Asks for ${isForHosts ? `hosts at ${now}` : request.to}`,
    body: [
      opening.length > longestOpening
        ? `${opening.slice(0, longestOpening)}… Open to see all of it.`
        : opening,
      ...[row === undefined ? '' : nameOf(row), request.why].map((text) => cut(showLines(text))),
    ]
      .filter(Boolean)
      .join('\n'),
  }
}

/** Whence a yes would lift it: with the request itself, which stays as it is, that says what it would open. */
function liftsFrom({ to }: BoundaryRequest, row: DispatchRow | undefined): BoundaryLevel {
  const now = row?.boundary ?? 'readonly'
  return boundaryRank(now) < boundaryRank(to) ? now : to
}

/** More than this at once is one notice: who is asked a hundred things answers none of them. */
const mostNotices = 3

export function noticesOfRequests(
  requests: readonly BoundaryRequest[],
  rowOf: (id: string) => DispatchRow | undefined,
): readonly Notice[] {
  if (requests.length <= mostNotices)
    return requests.map((request) => noticeOfRequest(request, rowOf(request.dispatch)))
  const agents = new Set(requests.map(({ dispatch }) => dispatch)).size
  const who = agents === 1 ? 'One agent asks' : `${agents} agents ask`
  return [{ id: null, title: `${requests.length} requests wait for you`, body: `${who} for more.` }]
}

/** How many changesets wait for a review: a later turn shows the changeset of the first, and it waits once. */
export const countWaiting = (rows: readonly DispatchRow[]): number =>
  new Set(
    rows.flatMap(({ status, changeset }) =>
      isTerminal(status) && changeset?.state === 'review' ? [changeset.id] : [],
    ),
  ).size

export type Attention = {
  readonly tell: (notice: Notice) => void
  /** Requests that nobody has to answer any more. */
  readonly settled: (requests: readonly string[]) => void
  readonly count: (counts: { waiting: number; running: number }) => void
  /** A look failed; another one follows. */
  readonly failed: (error: unknown) => void
}

/** More than change between two looks; what runs or waits for a person is among them however old it is. */
const newest = 200
/** After a look that failed, for whatever reason: long enough to be no burden, short enough to go unnoticed. */
const retryMs = 5_000

/** Follows the engine for the tray and for notifications. */
export async function watchDispatches(
  client: Client,
  signal: AbortSignal,
  { tell, settled, count, failed }: Attention,
): Promise<void> {
  const known = new Map<string, DispatchRow>()
  /** Each open request, and whence a yes would have lifted when it was told. */
  let asked: ReadonlyMap<string, BoundaryLevel> = new Map()
  let isFirst = true
  let looking: Promise<void> = Promise.resolve()
  let timer: NodeJS.Timeout | undefined
  /** Ended behind that many newer ones, and with nothing to review. */
  const endedBehind = (rows: readonly DispatchRow[]): Promise<readonly DispatchRow[]> => {
    const listed = new Set(rows.map(({ id }) => id))
    const gone = [...known.values()].filter(({ id, status }) => !isTerminal(status) && !listed.has(id))
    return Promise.all(gone.map(({ id }) => client.call('dispatch.get', { id })))
  }
  const look = async () => {
    const rows = await client.call('dispatch.list', { limit: newest, waiting: true })
    const ended = await endedBehind(rows)
    const requests = await client.call('boundary.inbox', {})
    // From here on nothing fails half-way: what was not told now would never be.
    const quiet = isFirst
    isFirst = false
    for (const row of [...rows, ...ended]) {
      const notice = quiet ? null : noticeOf(known.get(row.id), row)
      known.set(row.id, row)
      if (notice !== null) tell(notice)
    }
    const open: ReadonlyMap<string, BoundaryLevel> = new Map(
      requests.map((request) => [request.id, liftsFrom(request, known.get(request.dispatch))]),
    )
    const fresh = requests.filter(({ id }) => asked.get(id) !== open.get(id))
    // One that opens something else by now is withdrawn and told anew: a yes is to what was read. (escape: stale-yes)
    settled([...asked].filter(([id, from]) => open.get(id) !== from).map(([id]) => id))
    asked = open
    if (!quiet) for (const notice of noticesOfRequests(fresh, (id) => known.get(id))) tell(notice)
    count({
      waiting: countWaiting(rows) + requests.length,
      running: rows.filter((row) => !isTerminal(row.status)).length,
    })
    lookAgainIn(Math.min(...requests.map(({ expires_at: at }) => Date.parse(at))) - Date.now() + 100)
  }
  /** One look after the other. One that fails (a database that is busy) is made again: the watch goes on. */
  const inTurn = () =>
    (looking = looking.then(look).catch((error: unknown) => {
      if (signal.aborted) return
      failed(error)
      lookAgainIn(retryMs)
    }))
  /** That a request has expired changes nothing on record, and so nobody tells of it. */
  const lookAgainIn = (ms: number) => {
    clearTimeout(timer)
    if (!Number.isFinite(ms) || signal.aborted) return
    timer = setTimeout(() => void inTurn(), Math.max(0, ms))
    timer.unref()
  }
  signal.addEventListener('abort', () => clearTimeout(timer), { once: true })
  const changes = client.open('changes', {}, signal)
  await inTurn()
  for await (const _ of changes) await inTurn()
}
