import { z } from 'zod'
import { boundaryLevelSchema } from '../../shared/boundary.ts'

/** A line longer than this would not come through a pipe in one piece. */
export const longestLine = 4096

/** What somebody inside asks for. Everything in it is an agent's word and nothing more. */
export const wishSchema = z.object({
  /** Names the answer; the asker's own choice. */
  token: z.string().regex(/^[a-z0-9]{8,32}$/),
  to: boundaryLevelSchema,
  hosts: z.array(z.string().max(260)).max(20),
  // It is read by a person, in a terminal too. (escape: terminal-injection)
  reason: z
    .string()
    .max(500)
    .transform((text) => text.replaceAll(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, ' ').trim()),
  wait_s: z.number().int().min(0).max(3600),
})
export type Wish = z.infer<typeof wishSchema>

export type Heard =
  | { readonly kind: 'wish'; readonly wish: Wish }
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
  const wish = wishSchema.safeParse(said)
  if (wish.success) return { kind: 'wish', wish: wish.data }
  const token = wishSchema.pick({ token: true }).safeParse(said)
  if (!token.success) return { kind: 'noise' }
  const [issue] = wish.error.issues
  return {
    kind: 'unclear',
    token: token.data.token,
    why: `${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'not understood'}`,
  }
}
