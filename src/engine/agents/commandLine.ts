import type { AgentCard } from '../../shared/card.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { fromHome } from '../base/homes.ts'

type Words = {
  readonly command: readonly string[]
  readonly prompt: string | null
  readonly systemPrompt: string | null
}

/** What to run for a card: its own command with the prompt put in, or the caller's where the card has none. */
export function commandLine(card: AgentCard, words: Words): readonly [string, ...string[]] {
  if (card.command.length === 0) {
    const [first, ...rest] = words.command
    if (first === undefined || first === '') {
      throw new OrangeryError('agent.no_command', `agent "${card.id}": no command was given`, {
        kind: 'usage',
        hint: 'Put it after two dashes: -- make test',
      })
    }
    return [first, ...rest]
  }
  if (words.command.length > 0) {
    throw new OrangeryError('agent.own_command', `agent "${card.id}": it brings its own command`, {
      kind: 'usage',
      hint: 'Give the task with --prompt, or use --agent=command.',
    })
  }
  // Over a protocol that goes both ways the prompt is the first thing said.
  const needsPrompt = card.protocol === 'acp' || card.command.some((word) => word.includes('{prompt}'))
  if (needsPrompt && words.prompt === null) {
    throw new OrangeryError('agent.no_prompt', `agent "${card.id}": no prompt was given`, {
      kind: 'usage',
      hint: 'Add --prompt="what to do".',
    })
  }
  // One pass over each word: a prompt that contains "{system_prompt}" stays text.
  const filled = card.command.map((word) =>
    word.replaceAll(/\{(prompt|system_prompt)\}/g, (_whole, name: string) =>
      name === 'prompt' ? (words.prompt ?? '') : (words.systemPrompt ?? ''),
    ),
  )
  const [program = '', ...rest] = filled
  return [card.command[0]?.startsWith('~/') ? fromHome(program) : program, ...rest]
}
