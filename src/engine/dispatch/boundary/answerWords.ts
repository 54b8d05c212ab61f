import type { BoundaryRequest } from '../../../shared/escalation.ts'
import type { NetworkPolicy } from '../../base/contract.ts'
import { plainReason, type Answered, type Asked, type Shown } from '../../door/index.ts'
import { stillTaken } from '../../policy/index.ts'

export const nobodyAnswered = 'nobody answered in time'
export const longestReason = 500

/** What an agent that asked reads of the answer. */
export function answerInWords(asked: Asked, { status, answer, to, hosts }: BoundaryRequest): Answered {
  const said = answer?.message ?? ''
  // An earlier yes to its hosts gives these, and leaves the level as it is.
  const what = to === asked.to ? to : `${hosts.join(', ')} at ${to}`
  if (status === 'approved') return { status, message: said === '' ? `${what} is granted` : said }
  if (status === 'open') return { status, message: 'a person was asked and has not answered yet' }
  if (status === 'denied') return { status, message: said === '' ? 'a person said no' : said }
  // Overtaken by a narrowing, which says so; or by the end of the run.
  if (status === 'closed' && said !== '') return { status, message: said }
  return { status: 'expired', message: said === '' ? nobodyAnswered : said }
}

const mostHosts = 300

/** What an agent reads of the hosts it can reach now. Of a pin only the name is its business. */
export function reachShown(policy: NetworkPolicy | null): Shown['network'] {
  if (policy === null) return { mode: 'none', allowed: [], denied: [] }
  const { mode, allow, pins, deny, taken, returned } = policy
  const denied = [...new Set([...deny, ...stillTaken({ taken, returned })])]
  const allowed = [...new Set([...allow, ...Object.keys(pins)])].filter((host) => !denied.includes(host))
  return { mode, allowed: allowed.slice(0, mostHosts), denied: denied.slice(0, mostHosts) }
}

/** What a program whose connection was held reads of who said no; on one line, since it becomes a status line. */
export function wordsOfDenial(request: BoundaryRequest | null): string | null {
  if (request?.status !== 'denied' || request.answer === null) return null
  const { way, message } = request.answer
  const words = plainReason(message).slice(0, longestReason)
  if (way === 'policy') return words
  return words === '' ? 'a person said no' : `a person said no: ${words}`
}
