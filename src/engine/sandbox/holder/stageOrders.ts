import { gateArguments, shellNames } from './gate.ts'
import { bubblewrap, quote, tablePath } from './holder.ts'
import type { SandboxPlan } from '../plan/plan.ts'
import { placesOf, type Stage } from './stage.ts'

/** Stands inside a sandbox of nobody's, a leader of a session, until it is told what to become. */
const stagedScript = String.raw`
echo staged >&8
read -r go <&6 || exit 70
. /proc/self/fd/4
`

/** What a spare reads that is to start bubblewrap before there is a dispatch. */
export function stageOrders(stage: Stage): string {
  const { plan, terminal } = stage
  const { bell, table } = placesOf(stage)
  const { shell } = plan
  const inside = [shell.setsid, '--', shell.sh, '-c', stagedScript]
  const seal = plan.sealsDevices ? 'seal' : ''
  const args = [shell.mount, '', table, '', '', '', seal, '', '--', '--', ...bubblewrap(plan), ...inside]
  // Held open: a terminal that nobody has open has come to its end.
  return `exec 5<>${quote(terminal)} 6<>${quote(bell)}\nhold ${args.map(quote).join(' ')}\n`
}

/** What such a spare does for a dispatch: mounts what is in the table, knows where its roots are, and rings. */
export function attachOrders(stage: Stage, plan: SandboxPlan): string {
  const { bell } = placesOf(stage)
  const mount = [plan.shell.mount, '-i', '-a', '-T', tablePath(plan.request)].map(quote).join(' ')
  const known = plan.roots.map(({ slot, target }) => `where${slot}=${quote(target)}\n`).join('')
  return `${known}said=$(${mount} 2>&1) && echo go >${quote(bell)}\n`
}

// Others a shell cannot set, or sets for itself; some of them only bash does.
const ownNames =
  /^(?:BASH.*|DIRSTACK|EPOCH.*|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO|OLDPWD|PPID|RANDOM|SECONDS|SHELLOPTS|SRANDOM|UID)$/
const isShellName = (name: string) =>
  /^[A-Za-z_]\w*$/.test(name) && !shellNames.includes(name) && !ownNames.test(name)

/** What stands inside becomes: the gate, as it would have been started by bubblewrap. */
export function gateOrders(plan: SandboxPlan, closesDescriptors: boolean): string {
  const { cwd } = plan.request
  const environment = Object.entries({ ...plan.environment, PWD: cwd })
  const pairs = environment.map(([name, value]) => `${name}=${value}`)
  const gate = gateArguments(plan, closesDescriptors, '/dev/console')
  // Bubblewrap gave it an environment of nothing: what the shell can name it hands on by itself, one program less.
  const isNamed = environment.every(([name]) => isShellName(name))
  const give = isNamed ? `unset OLDPWD\nexport ${pairs.map(quote).join(' ')}\n` : ''
  const command = isNamed ? gate : ['/usr/bin/env', '-i', ...pairs, ...gate]
  return `cd -- ${quote(cwd)} || exit 70\n${give}exec ${command.map(quote).join(' ')}\n`
}
