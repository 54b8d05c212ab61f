import type { SandboxPlan } from '../plan/plan.ts'

// A shell sets these for itself and does not hand on what it was given, bash some more of them.
const shellsOwn =
  /^(?:PS[124]|IFS|OPTIND|SHLVL|_|BASH.*|DIRSTACK|EPOCH.*|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO|OLDPWD|PPID|RANDOM|SECONDS|SHELLOPTS|SRANDOM|UID)$/
const canHandOn = (name: string) => /^[A-Za-z_]\w*$/.test(name) && !shellsOwn.test(name)

export const quote = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`

/** In one line: a shell reads no further. */
const inLine = (text: string) => quote(text).replaceAll('\n', `'"$nl"'`)

/**
 * What is read at the gate once the agent is let go, a line each: where its program is looked for, and what it is given
 * as the last thing before it begins. Until then nothing has any of it: a library that is named in it (LD_PRELOAD, and
 * there are more such names than anybody knows) would speak for the gate, and answer what is probed.
 * (escape: loaded-at-the-gate) And on a command line others would read it.
 */
export function lastLines({ environment, confinement }: SandboxPlan): readonly [string, string] {
  // Level 0 is no sandbox: its environment is the user's own, and ours stands in it from the beginning.
  const isHeld = confinement === 'bubblewrap'
  // Where we stand is known already.
  const given = Object.entries(environment).filter(([name]) => name !== 'PWD')
  const pairs = (areMeant: boolean) =>
    given
      .filter(([name]) => canHandOn(name) === areMeant)
      .map(([name, value]) => ` ${inLine(`${name}=${value}`)}`)
      .join('')
  const [named, odd] = [isHeld ? pairs(true) : '', pairs(false)]
  const { PATH } = environment
  const last = [named === '' ? '' : `export${named}`, odd === '' ? '' : `set -- /usr/bin/env --${odd} "$@"`]
  return [
    PATH === undefined || !isHeld ? ':' : `PATH=${inLine(PATH)}`,
    last.filter(Boolean).join('; ') || ':',
  ]
}

/** Becomes the agent, in a shell that was started without its environment. */
export const becoming = String.raw`nl='
'
IFS= read -r given <&7 || exit 70
exec 7<&-
eval "$given"
exec "$@"`
