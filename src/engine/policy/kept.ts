import type { BoundaryRequest } from '../../shared/escalation.ts'
import type { EscalationState } from '../base/escalation.ts'
import { boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import { eventOfRequest } from './escalation.ts'
import { current, replaceRequest, type Held, type Step } from './step.ts'

/**
 * The way down to what a config leaves that allows less: hosts first, files after, so that who holds a file open keeps that
 * and no more. (escape: held-file-keeps-network)
 */
export function stepsDown({ level, hosts }: Held, to: BoundaryLevel): readonly BoundaryLevel[] {
  const hasNetwork = boundaryRank(level) >= boundaryRank('network') || hosts.length > 0
  return to === 'readonly' && level !== 'readonly' && hasNetwork ? ['readwrite', 'readonly'] : [to]
}

const isOfConfig = ({ status, source }: BoundaryRequest): boolean => status === 'open' && source === 'config'

/** Longer than dispatches run, and no longer than a timer can wait: it is closed when it holds no more. */
const lastsMs = 20 * 86_400_000

/** A person is told that an agent stays beyond the config, in the inbox and once. Nobody can grant it. */
export function tellKept(
  state: EscalationState,
  { id, why, at }: { readonly id: string; readonly why: string; readonly at: Date },
): Step<null> {
  if (!state.running || state.requests.some(isOfConfig)) return { state, effects: [], result: null }
  const kept: BoundaryRequest = {
    id,
    dispatch: state.dispatch,
    to: current(state).level,
    hosts: [],
    source: 'config',
    by: 'config',
    why,
    status: 'open',
    count: 1,
    created_at: at.toISOString(),
    last_at: at.toISOString(),
    expires_at: new Date(at.getTime() + lastsMs).toISOString(),
    answer: null,
  }
  const requests = [...state.requests, kept]
  return { state: { ...state, requests }, effects: [eventOfRequest(kept)], result: null }
}

/** It is within the config again: nobody need know any more. */
export const keptNoMore = (state: EscalationState): EscalationState =>
  state.requests
    .filter(isOfConfig)
    .reduce((left, request) => replaceRequest(left, { ...request, status: 'closed' }), state)
