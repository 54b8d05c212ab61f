import type { Command } from 'commander'

type Word = { readonly word: string; readonly about: string }
/** What may follow a path of command names. */
type Place = { readonly path: string; readonly commands: readonly Word[]; readonly options: readonly Word[] }

function places(command: Command, path = ''): Place[] {
  const commands = command.commands.map((child) => ({ word: child.name(), about: child.summary() }))
  const options = command.options
    .filter((option) => option.long !== undefined && !option.hidden)
    .map((option) => ({ word: option.long ?? '', about: option.description }))
  const below = command.commands.flatMap((child) => places(child, `${path} ${child.name()}`.trim()))
  return [{ path, commands, options: [...options, { word: '--help', about: 'how it is used' }] }, ...below]
}

/** Commands that only lead to others. */
const groups = (program: Command) =>
  program.commands.filter((command) => command.commands.length > 0).map((command) => command.name())

const listed = (words: readonly Word[]) => words.map(({ word }) => word).join(' ')

export function bashScript(program: Command): string {
  const cases = places(program).map(
    ({ path, commands, options }) =>
      `    '${path}') words='${listed(commands)}' options='${listed(options)}' ;;`,
  )
  return `# completion for bash; source it, or put it into your bash-completion folder
_orangery() {
  local current=\${COMP_WORDS[COMP_CWORD]} path='' words='' options='' index
  for ((index = 1; index < COMP_CWORD; index++)); do
    case \${COMP_WORDS[index]} in
      --) COMPREPLY=(); compopt -o default; return ;;
      -*) ;;
      *) case "$path" in '' | ${groups(program).join(' | ')})
           path="\${path:+$path }\${COMP_WORDS[index]}" ;; esac ;;
    esac
  done
  case $path in
${cases.join('\n')}
  esac
  if [[ $current == -* ]]; then words=$options; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ \${#COMPREPLY[@]} -eq 0 ]]; then compopt -o default; fi
}
complete -F _orangery orangery
`
}

const zshWord = ({ word, about }: Word) => `'${word}:${about.replaceAll("'", '’').replaceAll(':', ',')}'`

export function zshScript(program: Command): string {
  const cases = places(program).map(
    ({ path, commands, options }) =>
      `    '${path}') commands=(${commands.map(zshWord).join(' ')}) options=(${options.map(zshWord).join(' ')}) ;;`,
  )
  return `#compdef orangery
# completion for zsh; put it into a folder of your $fpath as _orangery
_orangery() {
  local path_words='' word
  local -a commands options
  for word in \${words[2,CURRENT-1]}; do
    case $word in
      --) _files; return ;;
      -*) ;;
      *) case $path_words in ''|${groups(program).join('|')})
           path_words="\${path_words:+$path_words }$word" ;; esac ;;
    esac
  done
  case $path_words in
${cases.join('\n')}
  esac
  if [[ $PREFIX == -* ]]; then _describe option options; else _describe command commands || _files; fi
}
# Loaded on first use the file is the function itself; sourced it has to say what it is for.
if [[ $funcstack[1] == _orangery ]]; then _orangery "$@"; else compdef _orangery orangery; fi
`
}

const fishText = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

export function fishScript(program: Command): string {
  const lines = places(program).flatMap(({ path, commands, options }) => {
    const seen = path.split(' ').filter(Boolean)
    const names = commands.map(({ word }) => word).join(' ')
    const here = seen.map((word) => `__fish_seen_subcommand_from ${word}`)
    const notYet = names === '' ? [] : [`not __fish_seen_subcommand_from ${names}`]
    const condition = [...here, ...notYet].join('; and ') || 'true'
    return [
      ...commands.map(
        ({ word, about }) =>
          `complete -c orangery -f -n ${fishText(condition)} -a ${word} -d ${fishText(about)}`,
      ),
      ...options.map(
        ({ word, about }) =>
          `complete -c orangery -n ${fishText(condition)} -l ${word.slice(2)} -d ${fishText(about)}`,
      ),
    ]
  })
  return `# completion for fish; put it into ~/.config/fish/completions/orangery.fish\n${lines.join('\n')}\n`
}
