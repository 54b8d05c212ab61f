import { ownName } from '../../base/sandbox.ts'
import type { WorkspaceRoot } from '../../base/workspace.ts'
import { watchedFrom } from '../denials/deniedWrites.ts'
import { becoming } from './agentEnvironment.ts'
import { firstProcess } from '../limits/rlimit.ts'
import type { SandboxPlan } from '../plan/plan.ts'
import { isInside } from '../plan/view.ts'

/** One question the gate answers from inside, and the answer the plan promises. */
export type GateQuestion = {
  readonly name: string
  /**
   * `create`, `read`: try to make it, to open it. `write`: may we. `exist`: is it there. `attempt`: did it succeed.
   * `filter`: was it our filter that refused the attempt. `host`: is that the host's name. `here`: do we stand there.
   */
  readonly ask: 'create' | 'write' | 'read' | 'exist' | 'attempt' | 'filter' | 'host' | 'here'
  readonly path: string
  readonly expected: boolean
}

/**
 * Runs inside the finished sandbox in the agent's place, with all that holds for the agent, and becomes the
 * agent when it is let go: there is no moment at which the agent runs under other rules than were probed.
 *
 * Arguments: bash cwd attempt console becomes program count (ask path)… command…
 * `bash` is empty where this is run by bash itself. `console` is named where the gate leads a session already: the
 * terminal it opens becomes that session's, and so the agent's. `becomes` is empty where the command itself does that.
 */
export const gateScript = String.raw`
bash=$1 cwd=$2 attempt=$3 console=$4 becomes=$5 program=$6 count=$7 answers= code= nl='
'; shift 7
# The one attempt that needs a program of its own runs while we are waited for.
# Where our filter is not there bubblewrap's limit refuses it, for lack of space.
if [ -n "$attempt" ]; then
  (said=$(LC_ALL=C $attempt 2>&1) && exit 0; case $said in *"not permitted"*) exit 1 ;; esac; exit 2) &
fi
echo here >&8
read -r go <&7 || exit 70
if [ -n "$cwd" ]; then cd -- "$cwd" || exit 70; fi
while [ "$count" -gt 0 ]; do
  case $1 in
  # Where a guard failed it may be a folder of the host.
  create) true 2>/dev/null >"$2" && { rm -f -- "$2" || :; } ;;
  write) [ -w "$2" ] ;;
  read) true 2>/dev/null <"$2" ;;
  exist) [ -e "$2" ] ;;
  attempt) wait $!; tried=$?; [ $tried = 0 ] ;;
  filter) [ $tried = 1 ] ;;
  host) read -r name </proc/sys/kernel/hostname && [ "$name" = "$2" ] ;;
  here) [ . -ef "$2" ] ;;
  esac && answers=$answers"y" || answers=$answers"n"
  shift 2
  count=$((count - 1))
done
echo "answers $answers" >&8
IFS= read -r given <&7 || exit 70
eval "$given"
# Told to us, in words of ours: the agent's own words come from programs that did start.
case $program in
*/*) if [ ! -e "$program" ]; then code=127; elif [ -d "$program" ] || [ ! -x "$program" ]; then code=126; fi ;;
*) command -v "$program" >/dev/null 2>&1 || code=127 ;;
esac
if [ -n "$code" ]; then echo unstartable >&8; exit "$code"; fi
if [ -n "$console" ]; then exec 4<>"$console" 5>&4 6>&4; fi
exec <&4 >&5 2>&6 3<&- 4<&- 5<&- 6<&- 8<&- 9<&-
# Descriptors that leaked from the host process would be doors into it. A plain shell cannot name those
# above 9; bash can.
for each in /proc/self/fd/*; do
  number=${'${each##*/}'}
  case $number in
  [0-9]) ;;
  *) [ -e "$each" ] || continue
    if [ -z "$bash" ]; then eval "exec $number>&-"; continue; fi
    exec "$bash" --norc --noprofile -p -c 'for each in /proc/self/fd/*; do
      number=${'${each##*/}'}; case $number in [0-2] | 7) ;; *) eval "exec $number>&-" ;; esac; done
      becomes=$1; shift
      set -- /usr/bin/env -u _ -u SHLVL -u OLDPWD "$@"
      eval "$becomes"; exec "$@"' orangery "$becomes" "$@" ;;
  esac
done
eval "$becomes"
exec "$@"
`

const mostAsked = 8

/** One of each kind: a layer or a mask that is missing is missing for all. */
function hiddenQuestions({ view }: SandboxPlan): readonly GateQuestion[] {
  const layer = view.find((step) => step.kind === 'covered')?.layer
  const masks = view.flatMap((step) => (step.kind === 'hidden' ? [step.target] : []))
  // What a spec hides comes last, and each of it was asked for by itself.
  const paths = new Set([layer?.hidden[0]?.path, masks[0], ...masks.slice(-mostAsked)])
  return [...paths].flatMap((path) =>
    path === undefined ? [] : [{ name: `read ${path}`, ask: 'read', path, expected: false }],
  )
}

export function gateQuestions(plan: SandboxPlan): readonly GateQuestion[] {
  const { request } = plan
  // At level 0 nothing is put in the place of the real files, so nothing holds what lies beside them.
  const isHeld = ({ mount, role }: WorkspaceRoot) =>
    plan.confinement === 'bubblewrap' || mount.kind === 'overlay' || role === 'project'
  const roots = request.workspace.roots.filter(isHeld)
  const rootQuestions = roots.map((root): GateQuestion => {
    const path = root.target
    // Covered or not there at all: in either case it cannot be opened.
    if (root.access === 'hidden') return { name: `read ${path}`, ask: 'read', path, expected: false }
    const isNamed = plan.places.some((place) => place.target === path && place.isNow)
    const expected = root.access === 'rw' && (plan.files === 'rw' || isNamed)
    return { name: `write ${path}`, ask: 'write', path, expected }
  })
  if (plan.confinement === 'holder') return rootQuestions
  const placeQuestions = plan.places.slice(0, mostAsked).map(({ target, isNow }): GateQuestion => ({
    name: `write ${target}`,
    ask: 'write',
    path: target,
    expected: plan.files === 'rw' || isNow,
  }))
  const visible = roots.map((root) => root.target)
  return [
    ...['/usr', '/etc', '/'].map((folder): GateQuestion => ({
      name: `create a file in ${folder}`,
      ask: 'create',
      path: `${folder === '/' ? '' : folder}/.orangery-probe`,
      expected: false,
    })),
    ...rootQuestions,
    ...placeQuestions,
    ...hiddenQuestions(plan),
    ...request.secretDirs
      .filter((folder) => !visible.some((path) => isInside(path, folder) || isInside(folder, path)))
      .map((folder): GateQuestion => ({
        name: `see ${folder}`,
        // One below a folder of the system is there, and covered.
        ask: plan.view.some((step) => step.kind === 'hidden' && step.target === folder) ? 'read' : 'exist',
        path: folder,
        expected: false,
      })),
    {
      name: 'make a user namespace',
      ask: 'attempt',
      path: '',
      expected: false,
    },
    { name: 'filter of system calls', ask: 'filter', path: '', expected: true },
    { name: `host name ${ownName}`, ask: 'host', path: ownName, expected: true },
    { name: `stand in ${request.cwd}`, ask: 'here', path: request.cwd, expected: true },
  ]
}

/** On a terminal the agent leads a session that owns it; elsewhere at least a group that a signal can reach whole. */
function session(plan: SandboxPlan): readonly string[] {
  const { setsid } = plan.shell
  if (plan.request.terminal) return [setsid, '--ctty', '--wait', '--']
  // Bubblewrap has made one already.
  return plan.confinement === 'holder' ? [setsid, '--wait', '--'] : []
}

/** The gate and, as its last arguments, the agent's own command. */
export function gateArguments(
  plan: SandboxPlan,
  closesDescriptors: boolean,
  console = '',
): readonly string[] {
  const questions = gateQuestions(plan)
  const { processes } = plan.limits
  const { bash } = plan.tools
  const shell = closesDescriptors && bash !== null ? [bash, '--norc', '--noprofile', '-p'] : [plan.shell.sh]
  // Programs of ours: what the agent is given is none of theirs. A limit would be late.
  const before = [
    ...(processes === null
      ? []
      : [plan.tools.prlimit ?? 'prlimit', `--nproc=${processes + firstProcess}`, '--']),
    ...(console === '' ? session(plan) : []),
  ]
  return [
    ...watchedFrom(plan),
    ...shell,
    '-c',
    gateScript,
    'orangery',
    shell[0] === bash ? '' : (bash ?? 'bash'),
    // Level 0: a working directory entered before the mount would be the user's own files under it.
    plan.confinement === 'holder' ? plan.request.cwd : '',
    plan.confinement === 'holder' ? '' : `${plan.shell.unshare} -U ${plan.shell.sh} -c :`,
    console,
    before.length === 0 ? becoming : '',
    plan.request.command[0] ?? '',
    String(questions.length),
    ...questions.flatMap(({ ask, path }) => [ask, path]),
    ...(before.length === 0 ? [] : [...before, plan.shell.sh, '-c', becoming, 'orangery']),
    ...plan.request.command,
  ]
}
