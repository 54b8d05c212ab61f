import { useMutationState, useQueryClient, type Mutation } from '@tanstack/react-query'
import type { BoundaryLevel } from '../../shared/boundary.ts'
import type { DispatchRow } from '../../shared/dispatch.ts'
import type { ApprovalScope, BoundaryRequest } from '../../shared/escalation.ts'
import { useAct } from '../client/queries.ts'
import { showToast } from '../design/toasts.ts'

const scopeWords: Readonly<Record<ApprovalScope, string>> = {
  once: 'Allowed once',
  task: 'Allowed for this task',
  project: 'Allowed, and saved to the project',
  user: 'Allowed, and saved for you',
}

/** Who goes down a list needs to hear of the last one only. */
const about = 'an answer'

/** Said alike whether a button or a key was pressed. */
export const useAllow = () =>
  useAct('boundary.approve', {
    onDone: (_, { scope }) => showToast({ about, tone: 'good', title: scopeWords[scope ?? 'once'] }),
  })

/** On its way, or given and not yet gone from the list: a second one would be told that it comes too late. */
const isAnswerTo =
  (request: string) =>
  ({ state: { status, variables }, options: { mutationKey } }: Mutation): boolean =>
    (status === 'pending' || status === 'success') &&
    (mutationKey?.[0] === 'boundary.approve' || mutationKey?.[0] === 'boundary.deny') &&
    (variables as { readonly request?: string }).request === request

/** As of this moment: keys come faster than anything is drawn. */
export function useIsAnswered(): (request: string) => boolean {
  const mutations = useQueryClient().getMutationCache()
  return (request) => mutations.getAll().some(isAnswerTo(request))
}

/** The boundary that the words of a request speak from. Unknown is shown as the least there is. */
export const shownOf = (row: DispatchRow | undefined): BoundaryLevel => row?.boundary ?? 'readonly'

export function useAnswers(request: BoundaryRequest, row: DispatchRow | undefined) {
  const approve = useAllow()
  const deny = useAct('boundary.deny', {
    onDone: () => showToast({ about, tone: 'plain', title: 'Denied. The agent is told.' }),
  })
  const given = useMutationState({ filters: { predicate: isAnswerTo(request.id) } })
  const place = { id: request.dispatch, request: request.id }
  return {
    busy: given.length > 0,
    allow: (scope: ApprovalScope, expires: string | null = null, roots: string[] | null = null) =>
      approve.mutate({
        ...place,
        scope,
        shown: shownOf(row),
        ...(expires === null ? {} : { expires }),
        ...(roots === null ? {} : { roots }),
      }),
    deny: (message: string) => deny.mutate({ ...place, message }),
  }
}
