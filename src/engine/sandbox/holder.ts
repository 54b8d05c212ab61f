import type { SandboxPlan } from './plan.ts'
import { dirname, basename } from 'node:path'
import { OrangeryError } from '../../shared/errors.ts'
import { heldFiles, viewOptions } from './view.ts'
import { gateArguments } from './gate.ts'

/** Descriptors every process of the chain is born with; a shell reaches no others than 0 to 9. */
export const descriptor = {
  seccomp: 0,
  status: 1,
  diagnostics: 2,
  // Not 0: a shell gives a background job an empty standard input.
  orders: 3,
  agentIn: 4,
  agentOut: 5,
  agentErr: 6,
  gateIn: 7,
  gateOut: 8,
  options: 9,
} as const

/**
 * First process of the holder's namespaces: mounts the workspace, runs the agent in the foreground (a
 * background job of a shell would ignore Ctrl-C for good) and takes orders on its input beside it. When it
 * ends, the kernel kills whatever is left in its process namespace and drops its mounts.
 *
 * Arguments: base mount ip join-files… -- slot lower upper work target flags … -- payload…
 */
export const holderScript = String.raw`
fail() { echo "failed 0 $1"; exit 70; }
base=$1 mount=$2 ip=$3 fuse=$4; shift 4
if [ -n "$ip" ]; then
  "$ip" link set lo up || fail 'cannot bring up lo'
fi
"$mount" -t tmpfs -o mode=0755,size=16m orangery "$base" || fail "cannot mount on $base"
umask 022
mkdir "$base/empty" $1 || fail 'cannot make mount points'
printf %s "$2" >"$base/passwd"; printf %s "$3" >"$base/group"; printf %s "$4" >"$base/hosts"; : >"$base/resolv"
umask 777; : >"$base/nothing"; umask 022
shift 4
joins=
while [ "$1" != -- ]; do joins="$joins $1"; shift; done
shift
mounts=
while [ "$1" != -- ]; do
  slot=$1 lower=$2 upper=$3 work=$4 where=$5; shift 5
  # An overlay's options cannot carry every character: such paths are bound to plain ones first.
  case $lower in bind:*) lower=$base/low$slot; "$mount" --bind "$1" "$lower" || fail "cannot bind $1"; shift;; esac
  case $upper in bind:*) "$mount" --bind "$1" "$base/up$slot" || fail "cannot bind $1"; shift
    upper=$base/up$slot/${'${upper#bind:}'} work=$base/up$slot/$work;; esac
  [ -n "$where" ] || where=$base/root$slot
  if [ -n "$fuse" ]; then
    "$fuse" -o "lowerdir=$lower,upperdir=$upper,workdir=$work" "$where" || fail "cannot mount the workspace"
  else
    "$mount" -t overlay -o "lowerdir=$lower,upperdir=$upper,workdir=$work,userxattr,index=off,xino=off" overlay "$where" ||
      fail "cannot mount the workspace"
  fi
done
shift
orders() {
  read -r self rest </proc/self/stat
  while read -r id order one two; do
    case $order in
    remount)
      said=$("$mount" -o "remount,$one" "$two" 2>&1) && echo "done $id" || echo "failed $id $said" ;;
    hosts)
      printf %b "$one" >"$base/hosts" && echo "done $id" || echo "failed $id cannot write hosts" ;;
    signal)
      read -r kids </proc/1/task/1/children
      for kid in $kids; do
        [ "$kid" != "$self" ] || continue
        if [ "$two" = bubblewrap ]; then
          read -r kid rest <"/proc/$kid/task/$kid/children"; read -r kid rest <"/proc/$kid/task/$kid/children"
        fi
        kill -s "$one" "$kid"
      done
      echo "done $id" ;;
    esac
  done
  kill -s KILL -- -1
}
orders <&3 3<&- 4<&- 5>&- 6>&- 7<&- 8>&- 9<&- &
echo ready
(
  for file in $joins; do echo 0 >"$file" || fail "cannot join $file"; done
  exec "$@" >&2
)
code=$?
echo "end $code"
times
exit 0
`

const plainPath = /^[\w@%+=./ -]+$/

function rootArguments(plan: SandboxPlan): readonly string[] {
  return plan.roots.flatMap((root) => {
    const { lower, upper, work } = root
    const isPlain = plainPath.test(upper) && plainPath.test(work)
    if (!isPlain && dirname(upper) !== dirname(work)) {
      throw new OrangeryError(
        'sandbox.layers_apart',
        `${root.target}: upper and work lie in different folders`,
      )
    }
    return [
      String(root.slot),
      plainPath.test(lower) ? lower : 'bind:',
      isPlain ? upper : `bind:${basename(upper)}`,
      isPlain ? work : basename(work),
      plan.confinement === 'holder' ? root.target : '',
      ...(plainPath.test(lower) ? [] : [lower]),
      ...(isPlain ? [] : [dirname(upper)]),
    ]
  })
}

export function mountOf(plan: SandboxPlan, slot: number): string {
  const root = plan.roots.find((candidate) => candidate.slot === slot)
  return plan.confinement === 'holder' && root !== undefined ? root.target : `${plan.base}/root${slot}`
}

/** Bubblewrap's options; they go through a descriptor, since every user of the host can read a command line. */
export function bubblewrapOptions(plan: SandboxPlan): readonly string[] {
  return [
    '--unshare-user',
    '--uid',
    String(plan.identity.uid),
    '--gid',
    String(plan.identity.gid),
    '--unshare-pid',
    '--unshare-ipc',
    '--unshare-uts',
    '--unshare-cgroup-try',
    '--hostname',
    'orangery',
    '--disable-userns',
    '--cap-drop',
    'ALL',
    '--new-session',
    '--die-with-parent',
    '--seccomp',
    String(descriptor.seccomp),
    ...viewOptions(plan.view, plan.base),
    '--chdir',
    plan.request.cwd,
    '--clearenv',
    ...Object.entries(plan.environment).flatMap(([name, value]) => ['--setenv', name, value]),
  ]
}

function payload(plan: SandboxPlan): readonly string[] {
  const gate = gateArguments(plan)
  if (plan.confinement === 'holder') {
    const { uid, gid } = plan.identity
    return [plan.shell.unshare, '--user', `--map-user=${uid}`, `--map-group=${gid}`, '--', ...gate]
  }
  const affinity = plan.limits.affinity
  return [
    // Outside the filter, which keeps the agent from calling it again.
    ...(affinity === null ? [] : [plan.tools.taskset ?? 'taskset', '-c', affinity]),
    plan.tools.bwrap ?? 'bwrap',
    '--args',
    String(descriptor.options),
    '--',
    ...gate,
  ]
}

/** The whole command line the driver starts, ending with the agent's own. */
export function holderCommand(
  plan: SandboxPlan,
  joinFiles: readonly string[],
): readonly [string, ...string[]] {
  const { shell, base, tools } = plan
  const isConfined = plan.confinement === 'bubblewrap'
  const slots = plan.roots.map(({ slot }) => slot)
  // Mount points are our own names without blanks; the shell splits them apart.
  const folders = slots.flatMap((slot) => [`${base}/root${slot}`, `${base}/low${slot}`, `${base}/up${slot}`])
  const scope = plan.limits.scope
  const around =
    scope === null || tools['systemd-run'] === null
      ? []
      : [
          tools['systemd-run'],
          '--user',
          '--scope',
          '--quiet',
          '--collect',
          ...scope.flatMap((one) => ['-p', one]),
          '--',
        ]
  return [
    ...around,
    shell.setpriv,
    '--pdeathsig',
    'KILL',
    '--',
    shell.unshare,
    isConfined ? '-Urmnpf' : '-Urmpf',
    '--mount-proc',
    '--kill-child=KILL',
    '--',
    shell.sh,
    '-c',
    holderScript,
    'orangery-holder',
    base,
    shell.mount,
    isConfined ? (tools.ip ?? '') : '',
    plan.workspaceBy === 'fuse-overlayfs' ? (tools['fuse-overlayfs'] ?? '') : '',
    folders.join(' '),
    heldFiles.passwd,
    heldFiles.group,
    heldFiles.hosts,
    ...joinFiles,
    '--',
    ...rootArguments(plan),
    '--',
    ...payload(plan),
  ] as unknown as readonly [string, ...string[]]
}
