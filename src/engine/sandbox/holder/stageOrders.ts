import { quote } from './agentEnvironment.ts'
import { gateArguments } from './gate.ts'
import { bubblewrap, tablePath } from './holder.ts'
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

/** What stands inside becomes: the gate, as it would have been started by bubblewrap. */
export function gateOrders(plan: SandboxPlan, closesDescriptors: boolean): string {
  const cwd = quote(plan.request.cwd)
  const gate = gateArguments(plan, closesDescriptors, '/dev/console')
  return `cd -- ${cwd} || exit 70\nunset OLDPWD\nexport PWD=${cwd}\nexec ${gate.map(quote).join(' ')}\n`
}
