import { basename } from 'node:path'
import { OrangeryError } from '../../shared/errors.ts'
import type { ResolvedLevel } from '../../shared/config.ts'
import type { BoundaryLevel } from '../../shared/boundary.ts'

type CommandList = ResolvedLevel['commands']

/** Words that only start another command. */
const starters = new Set(
  'sudo env exec command nohup time nice xargs if then elif else while until do !'.split(' '),
)
/** What a shell does itself: an allow list of programs says nothing about it. */
const builtins = new Set(
  ': . [ alias case cd done echo esac exit export false fi for local printf pwd read return set shift test trap true type ulimit umask unset wait'.split(
    ' ',
  ),
)
const shells = new Set(['sh', 'bash', 'dash', 'zsh', 'ksh'])
const givesScript = (word: string): boolean => /^-\w*c$/.test(word)

/** The words of each simple command in a line, quotes taken off. Enough to read a call by, not to run it. */
function simpleCommands(line: string): string[][] {
  const commands: string[][] = [[]]
  let word: string | null = null
  let quote = ''
  const endWord = () => {
    if (word !== null) commands.at(-1)?.push(word)
    word = null
  }
  for (let index = 0; index < line.length; index++) {
    const letter = line[index] as string
    if (letter === '\\' && quote !== "'") word = `${word ?? ''}${line[++index] ?? ''}`
    else if (quote !== '') {
      if (letter === quote) quote = ''
      else word = `${word ?? ''}${letter}`
    } else if (letter === "'" || letter === '"') {
      quote = letter
      word ??= ''
    } else if (/[;&|\n(){}`]/.test(letter)) {
      endWord()
      commands.push([])
    } else if (/\s/.test(letter)) endWord()
    else word = `${word ?? ''}${letter}`
  }
  endWord()
  return commands.filter((words) => words.length > 0)
}

function bareCall(words: readonly string[]): readonly string[] {
  const first = words.findIndex((word) => !/^\w+=/.test(word) && word !== '$' && !starters.has(word))
  if (first === -1) return []
  const [name = '', ...rest] = words.slice(first)
  return [basename(name), ...rest]
}

/** The commands a call would run as far as its words show: a program by its name, and what a shell is given. */
export function commandsOfCall(words: readonly string[]): readonly string[] {
  const call = bareCall(words)
  if (call.length === 0) return []
  const script = scriptOf(call)
  return [call.join(' '), ...(script === undefined ? [] : commandsOfLine(script))]
}

function scriptOf([name = '', ...rest]: readonly string[]): string | undefined {
  const flag = shells.has(name) ? rest.findIndex(givesScript) : -1
  return flag === -1 ? undefined : rest[flag + 1]
}

export function commandsOfLine(line: string): readonly string[] {
  return simpleCommands(line).flatMap(commandsOfCall)
}

const normal = (entry: string): string => entry.trim().replaceAll(/\s+/g, ' ')
const covers = (entry: string, call: string): boolean =>
  call === normal(entry) || call.startsWith(`${normal(entry)} `)

/** Why a call is not allowed at a boundary; null where it is. */
export function commandRefusal(list: CommandList, call: string): string | null {
  const denied = list.deny.find((entry) => covers(entry, call))
  if (denied !== undefined) return `${normal(denied)}: denied at this boundary`
  if (list.allow === null || list.allow.some((entry) => covers(entry, call))) return null
  const words = call.split(' ')
  const [name = ''] = words
  // A shell that is given a script runs what is in it, and that is looked at by itself.
  if (builtins.has(name) || (shells.has(name) && words.some(givesScript))) return null
  return `${name}: not among the commands this boundary allows`
}

/**
 * The one command that we start ourselves is held to the list for certain. What a shell is given is not looked at
 * here: parts of a script may only run once the boundary is wider.
 */
export function refuseCommand(list: CommandList, command: readonly string[], level: BoundaryLevel): void {
  const call = bareCall(command)
  const why = call.length === 0 ? null : commandRefusal(list, call.join(' '))
  if (why === null) return
  throw new OrangeryError('policy.command', why, {
    kind: 'refused',
    hint: `See sandboxLevels.${level}.commands in \`orangery config show --effective\`.`,
  })
}
