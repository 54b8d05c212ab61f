import { OrangeryError } from '../../../shared/errors.ts'
import { joinHints } from '../../../shared/joinHints.ts'

/** One error for all that is in the way: who mends one reason should not meet the next only then. */
export function together(errors: readonly OrangeryError[]): OrangeryError {
  const [first, ...others] = errors.filter(
    ({ message }, index) => errors.findIndex((other) => other.message === message) === index,
  )
  if (first === undefined) return new OrangeryError('sandbox.unknown', 'the sandbox: no reason was given')
  if (others.length === 0) return first
  const all = [first, ...others]
  return new OrangeryError(first.code, all.map(({ message }) => message).join('; '), {
    kind: first.kind,
    hint: joinHints(all.flatMap(({ hint }) => (hint === undefined ? [] : [hint]))),
  })
}

/** What those that fail throw. */
export function reasonsOf(requirements: readonly (() => unknown)[]): readonly OrangeryError[] {
  return requirements.flatMap((requirement) => {
    try {
      requirement()
      return []
    } catch (error) {
      if (error instanceof OrangeryError) return [error]
      throw error
    }
  })
}
