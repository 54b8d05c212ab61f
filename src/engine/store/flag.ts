import type { Transition } from '../../shared/changeset.ts'

/** By whom a flag is that no person raised. */
const program = 'orangery'

/** Why a human is asked to look, and how it comes on record. */
type Flag = { readonly escalated: string | null; readonly said: string }

/**
 * A person's word replaces the flag and takes it back as a whole. The program's stands beside what a person said: a
 * crash must not take his question from him, nor its recovery answer it.
 */
export function nextFlag(
  escalated: string | null,
  transitions: readonly Transition[],
  why: string | null,
  by: string,
): Flag {
  const kept = by === program && escalated !== null ? personsFlag(transitions) : null
  const both = [kept, why].filter((each) => each !== null)
  const ours =
    kept !== null && escalated?.startsWith(`${kept}; `) ? escalated.slice(kept.length + 2) : escalated
  return {
    escalated: both.length === 0 ? null : both.join('; '),
    said: why === null ? `not escalated any more: ${ours ?? ''}` : `${raised}${why}`,
  }
}

const raised = 'escalated: '

function personsFlag(transitions: readonly Transition[]): string | null {
  const last = transitions.findLast(
    ({ from, to, by, why }) =>
      from === to && by !== program && (why.startsWith(raised) || why.startsWith('not escalated any more: ')),
  )
  return last?.why.startsWith(raised) === true ? last.why.slice(raised.length) : null
}
