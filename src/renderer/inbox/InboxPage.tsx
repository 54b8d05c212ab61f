import { Inbox } from 'lucide-react'
import { useState } from 'react'
import type { DispatchRow } from '../../shared/dispatch.ts'
import type { ApprovalScope, BoundaryRequest } from '../../shared/escalation.ts'
import { Keys } from '../design/Keys.tsx'
import { useToasts } from '../design/toasts.ts'
import { go } from '../shell/route.ts'
import { useKeys } from '../shell/useKeys.ts'
import { RequestCard } from './RequestCard.tsx'
import { shownOf, useAllow, useIsAnswered } from './useAnswers.ts'
import { useSight } from './useSight.ts'
import { countAlike, isAnswerable } from './words.ts'

const hints = [
  ['j k', 'move'],
  ['a', 'once'],
  ['t', 'for the task'],
  ['s', 'save to the project'],
  ['u', 'save for you'],
  ['x', 'deny'],
] as const

/** What waits for a person, over all agents. */
export function InboxPage({
  requests,
  rows,
}: {
  requests: readonly BoundaryRequest[]
  rows: readonly DispatchRow[]
}) {
  const [currentId, setCurrent] = useState<string | null>(null)
  const [lastAt, setLastAt] = useState(0)
  const [denying, setDenying] = useState<string | null>(null)
  const approve = useAllow()
  const isAnswered = useIsAnswered()
  const found = requests.findIndex((request) => request.id === currentId)
  // The one that stood here was answered: who goes down a list goes on with the next, not from the top.
  const at = found >= 0 ? found : Math.max(0, Math.min(lastAt, requests.length - 1))
  if (at !== lastAt) setLastAt(at)
  const current = requests[at]
  const rowOf = (dispatch: string) => rows.find((row) => row.id === dispatch)
  const step = (by: number) =>
    setCurrent(requests[Math.max(0, Math.min(requests.length - 1, at + by))]?.id ?? null)
  const { pane, isSeen, bring } = useSight(current?.id ?? null, currentId)
  const toastsHeight = useToasts((state) => state.height)
  const answer = (give: (request: BoundaryRequest) => void) => {
    if (current === undefined || !isAnswerable(current) || isAnswered(current.id)) return
    if (isSeen()) give(current)
    else bring()
  }
  const allow = (scope: ApprovalScope) =>
    answer(({ dispatch: id, id: request }) =>
      approve.mutate({ id, request, scope, shown: shownOf(rowOf(id)) }),
    )
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    a: () => allow('once'),
    t: () => allow('task'),
    s: () => allow('project'),
    u: () => allow('user'),
    x: () => answer(({ id }) => setDenying(id)),
    Enter: () => current !== undefined && go({ page: 'dispatch', id: current.dispatch, tab: null }),
  })
  if (requests.length === 0) {
    return (
      <div className="grid h-full place-items-center text-center text-ink-faint">
        <div>
          <Inbox size={24} strokeWidth={1.5} className="mx-auto mb-2" />
          Nobody asks for more.
        </div>
      </div>
    )
  }
  const isAsked = requests.some(isAnswerable)
  return (
    <div
      ref={pane}
      style={{ paddingBottom: toastsHeight, scrollPaddingBottom: toastsHeight }}
      className="h-full overflow-y-auto"
    >
      <div className="mx-auto max-w-2xl space-y-5 px-6 py-8 tight:px-4 tight:py-5">
        <header>
          <h1 className="text-display font-semibold tracking-tight">
            {isAsked ? 'Asking for more' : 'Beyond your config'}
          </h1>
          <p className="mt-1 text-ink-soft">
            {isAsked
              ? 'They go on as far as they may until you answer.'
              : 'Your maximum was lowered, and what still goes on could not be narrowed yet.'}
          </p>
          {isAsked && (
            <p className="mt-3 flex flex-wrap items-center gap-x-3 gap-y-1 text-small text-ink-faint max-[52rem]:hidden">
              {hints.map(([keys, what]) => (
                <span key={keys} className="inline-flex items-center gap-1.5">
                  <Keys>{keys}</Keys> {what}
                </span>
              ))}
            </p>
          )}
        </header>
        <div className="space-y-3">
          {requests.map((request) => (
            <RequestCard
              key={request.id}
              request={request}
              row={rowOf(request.dispatch)}
              current={request === current}
              alike={countAlike(requests, request)}
              denying={denying === request.id}
              onDenying={(open) => setDenying(open ? request.id : null)}
            />
          ))}
        </div>
      </div>
    </div>
  )
}
