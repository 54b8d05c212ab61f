import { z } from 'zod'
import { boundaryLevelSchema } from '../../shared/boundary.ts'

/** A line longer than this would not come through a pipe in one piece. */
export const longestLine = 4096

/** Names the answer; the asker's own choice. */
const token = z.string().regex(/^[a-z0-9]{8,32}$/)

/** What a wish says, whichever way it comes. Everything in it is an agent's word and nothing more. */
export const wishFields = {
  to: boundaryLevelSchema,
  hosts: z.array(z.string().max(260)).max(20),
  reason: z.string().max(500),
  wait_s: z.number().int().min(0).max(3600),
}

/** It is read by a person, in a terminal too. (escape: printed-control-characters) */
export const plainReason = (text: string): string =>
  text.replaceAll(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, ' ').trim()

const wishSchema = z.object({ token, ...wishFields, reason: wishFields.reason.transform(plainReason) })
export type Wish = z.infer<typeof wishSchema>

/** Other things than a wish that can be said: let me see, and let us talk longer. */
const callSchema = z.object({ token, call: z.enum(['show', 'mcp']) })

export type Heard =
  | { readonly kind: 'wish'; readonly wish: Wish }
  | { readonly kind: 'show' | 'mcp'; readonly token: string }
  /** Who asked can at least be told so. */
  | { readonly kind: 'unclear'; readonly token: string; readonly why: string }
  | { readonly kind: 'noise' }

export function readWish(line: string): Heard {
  let said: unknown
  try {
    said = JSON.parse(line)
  } catch {
    return { kind: 'noise' }
  }
  const call = callSchema.safeParse(said)
  if (call.success) return { kind: call.data.call, token: call.data.token }
  const wish = wishSchema.safeParse(said)
  if (wish.success) return { kind: 'wish', wish: wish.data }
  const named = z.object({ token }).safeParse(said)
  if (!named.success) return { kind: 'noise' }
  const [issue] = wish.error.issues
  return {
    kind: 'unclear',
    token: named.data.token,
    why: `${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'not understood'}`,
  }
}
