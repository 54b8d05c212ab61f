import type { BoundaryRequest } from '../../shared/escalation.ts'
import { plainReason, type Answered, type Asked } from '../door/index.ts'

export const nobodyAnswered = 'nobody answered in time'
export const longestReason = 500

/** What an agent that asked reads of the answer. */
export function answerInWords({ to }: Asked, { status, answer }: BoundaryRequest): Answered {
  const said = answer?.message ?? ''
  if (status === 'approved') return { status, message: said === '' ? `${to} is granted` : said }
  if (status === 'open') return { status, message: 'a person was asked and has not answered yet' }
  if (status === 'denied') return { status, message: said === '' ? 'a person said no' : said }
  return { status: 'expired', message: nobodyAnswered }
}

/** What a program whose connection was held reads of who said no; on one line, since it becomes a status line. */
export function wordsOfDenial(request: BoundaryRequest | null): string | null {
  if (request?.status !== 'denied' || request.answer === null) return null
  const { way, message } = request.answer
  const words = plainReason(message).slice(0, longestReason)
  if (way === 'policy') return words
  return words === '' ? 'a person said no' : `a person said no: ${words}`
}
