import type { AgentCard } from '../../../shared/card.ts'

/** The variables of the user's own that an agent's card asks for, as far as they are set; what was said at spawn wins. */
export function cardEnvironment(
  { sandboxRequirements }: Pick<AgentCard, 'sandboxRequirements'>,
  own: Readonly<Record<string, string | undefined>>,
  given: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const named = sandboxRequirements.env.flatMap((name) => {
    const value = own[name]
    return value === undefined ? [] : [[name, value] as const]
  })
  return { ...Object.fromEntries(named), ...given }
}
