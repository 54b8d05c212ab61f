import { landWaiting } from '../landing/landings.ts'
import type { Parts } from '../parts.ts'
import { endOrphanedChildren } from './orphanedChildren.ts'
import { recover } from './recover.ts'
import { sweep } from './sweep.ts'

/**
 * A process that is killed cannot say so, nor land what waited for its agent, nor take its files away: whoever
 * lives looks after the others' dispatches and tidies up after them. What fails keeps nothing else from it: a full
 * disk must not keep people from looking.
 */
export async function tidyUp(parts: Parts, onUnexpected: (error: unknown) => void): Promise<void> {
  for (const step of [recover, endOrphanedChildren, landWaiting, sweep]) await step(parts).catch(onUnexpected)
}
