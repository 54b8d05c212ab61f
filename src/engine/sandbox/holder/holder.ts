import { basename, dirname, join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import { ownName } from '../../base/sandbox.ts'
import { givenFiles } from '../plan/etc.ts'
import { quote } from './agentEnvironment.ts'
import { gateArguments } from './gate.ts'
import type { HeldRoot, SandboxPlan } from '../plan/plan.ts'
import { emptyBelow, type SystemLayer } from '../host/systemLayers.ts'
import { viewOptions } from '../plan/view.ts'

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
  /** What the holder is to do, once it is told to go on; from the gate on we are told there how things are. */
  script: 8,
  options: 9,
  /** The first of those bubblewrap reads our own files of /etc from. */
  given: 10,
} as const

/**
 * First process of the holder's namespaces: mounts the workspace over the roots, runs the agent in the
 * foreground (a background job of a shell would ignore Ctrl-C for good) and takes orders beside it. When it
 * ends, the kernel kills whatever is left in its process namespace and drops its mounts.
 *
 * Arguments: mount fuse table etc system terminal seal scope join-file… -- (slot lower layers upper work where touched… --)… -- payload…
 * A root whose `lower` is empty is mounted by the table.
 */
const holderScript = String.raw`
fail() { echo "failed 0 $1"; exit 70; }
settle() {
  if [ -n "$mounting" ]; then wait "$mounting" || fail 'cannot mount the workspace'; fi
  mounting=
}
children() { read -r kids <"/proc/$1/task/$1/children"; }
groupOf() { read -r line <"/proc/$1/stat"; set -- ${'$'}{line##*) }; group=$3; }
orders() {
  read -r self name state watcher rest </proc/self/stat
  groupOf self; own=$group
  while read -r id order one two; do
    read -r name name name parent rest </proc/self/stat
    [ "$parent" = "$watcher" ] || { echo 'lost the process that watches orders was killed'; break; }
    case $order in
    remount)
      eval "where=\$where$two"
      said=$("$mount" -i -o "remount,$one" "$where" 2>&1) && echo "done $id" || echo "failed $id" $said ;;
    signal)
      children 1
      for kid in $kids; do
        [ "$kid" != "$self" ] && [ "$kid" != "$watcher" ] || continue
        # Below bubblewrap and the first process it keeps inside stands the agent.
        if [ "$two" = bubblewrap ]; then children "$kid"; children "${'$'}{kids%% *}"; kid=${'$'}{kids%% *}; fi
        # As on a terminal, Ctrl-C is for the whole group: a shell waits for the command it started.
        groupOf "$kid"
        if [ "$group" != "$own" ]; then kill -s "$one" -- "-$group"; else kill -s "$one" "$kid"; fi
        break
      done
      echo "done $id" ;;
    attach)
      # What was not known when bubblewrap was started. It appears inside, whose folders are shared with these.
      . /proc/self/fd/8 && echo "done $id" || echo "failed $id" $said ;;
    still)
      # All of them in one call, which no fork comes between. What is named is ours. (escape: narrow-hopping-writer)
      while [ "$one" -gt 0 ]; do kill -s STOP -- -1 2>/dev/null; one=$((one - 1)); done
      for pid in $two; do kill -s CONT "$pid" 2>/dev/null; done
      echo "done $id" ;;
    go)
      kill -s CONT -- -1 2>/dev/null
      echo "done $id" ;;
    tell)
      for pid in $two; do kill -s "$one" "$pid" 2>/dev/null; done
      echo "done $id" ;;
    files)
      set -- $two; most=$1; shift
      for pid; do "$one" --pid "$pid" "--nofile=$most:" >/dev/null 2>&1; done
      echo "done $id" ;;
    end)
      # The end of the first process inside is the end of all of them, and bubblewrap lives to report it.
      if [ "$one" = bubblewrap ]; then
        children 1
        for kid in $kids; do
          [ "$kid" != "$self" ] && [ "$kid" != "$watcher" ] || continue
          children "$kid"; kill -s KILL $kids && break
        done
      else break; fi ;;
    esac
  done
  # Whoever gave orders is gone: so is everything here.
  kill -s KILL -- -1
}
# Opening a file to append to it brings it into the writable layer, unchanged. What stands here may have become a
# link since it was looked at: no name is followed, and nothing is made through one. (escape: phase-file-link)
bring() (
  rest=${'$'}{2#"$1"/}
  cd -P -- "$1" || exit 1
  while [ "${'$'}{rest#*/}" != "$rest" ]; do
    expected=${'$'}{PWD%/}/${'$'}{rest%%/*}
    cd -P -- "./${'$'}{rest%%/*}" && [ "$PWD" = "$expected" ] || exit 1
    rest=${'$'}{rest#*/}
  done
  if [ -L "./$rest" ]; then exit 1
  elif [ -e "./$rest" ]; then [ -f "./$rest" ] && : 4<"./$rest" >>/proc/self/fd/4
  else set -C; : >"./$rest"
  fi
)
# Our layer over /etc and the folder of those over the system are 4 and 5 to the table, whatever their paths hold.
mountAll() { "$1" -i -a -T "$2" 4<"${'$'}{3:-/}" 5<"${'$'}{4:-/}"; }
hold() {
mount=$1 fuse=$2 table=$3 etc=$4 system=$5 terminal=$6 seal=$7 scope=$8 joins= mounting=; shift 8
while [ "$1" != -- ]; do joins="$joins $1"; shift; done
shift
# All at once: starting a program for each of them costs more than mounting does. And beside what follows.
if [ -n "$table" ]; then mountAll "$mount" "$table" "$etc" "$system" & mounting=$!; fi
while [ "$1" != -- ]; do
  slot=$1 lower=$2 layers=$3 upper=$4 work=$5 where=$6; shift 6
  # Options of a mount cannot carry every character a path may hold: such folders are named by descriptor.
  if [ -z "$lower" ]; then :
  elif [ -n "$layers" ]; then
    bottom=$lower lower=/proc/self/fd/4 upper=/proc/self/fd/5/$upper work=/proc/self/fd/5/$work
  else
    bottom=/ layers=/
  fi
  options="lowerdir=$lower,upperdir=$upper,workdir=$work"
  if [ -n "$lower" ] || [ "$1" != -- ]; then settle; fi
  if [ -z "$lower" ]; then :
  elif [ -n "$fuse" ]; then
    "$fuse" -o "$options" "$where" 4<"$bottom" 5<"$layers"
  else
    "$mount" -i -t overlay -o "$options,userxattr,index=off,xino=off" overlay "$where" 4<"$bottom" 5<"$layers"
  fi || fail 'cannot mount the workspace'
  eval "where$slot=\$where"
  while [ "$1" != -- ]; do bring "$where" "$1" || fail "cannot make $1 writable"; shift; done
  shift
done
shift
if [ -n "$terminal" ]; then exec 4<>"$terminal" 5>&4 6>&4; fi
# Who takes orders is watched: were it killed unnoticed, a boundary could not be narrowed any more.
{
  # Systemd asks a whole scope to end when a process in it ran out of memory. An agent may not care.
  trap '' TERM
  (orders)
  echo 'lost the process that takes orders was killed'
  kill -s KILL -- -1
} <&3 3<&- 4<&- 5<&- 6<&- 7<&- 9<&- &
settle
if [ -n "$seal" ]; then
  # One opened outside is not sealed: fchmod of an empty standard input would be one of the host's /dev/null.
  for each in 4 5 6; do
    if [ "/proc/self/fd/$each" -ef /dev/null ]; then eval "exec $each<>/dev/null"; fi
  done
fi
# The gate speaks to us on 8, where we speak ourselves.
(
  for file in $joins; do echo 0 >"$file" || fail "cannot join $file"; done
  # /dev/null is ours, sealed: bubblewrap keeps it open where the agent can reach it.
  exec "$@" 8>&1 >/dev/null 3<&-
)
code=$?
# A systemd scope is gone with its last process, which we are: nobody can ask it later.
if [ -n "$scope" ]; then
  while IFS=: read -r number names path; do [ "$number" != 0 ] || group=/sys/fs/cgroup$path; done </proc/self/cgroup
  while read -r event count; do [ "$event" != oom_kill ] || echo "limit memory $count"; done <"$group/memory.events"
  while read -r event count; do [ "$event" != max ] || echo "limit pids $count"; done <"$group/pids.events"
  read -r peak <"$group/memory.peak" && echo "peak $peak"
fi 2>/dev/null
echo "end $code"
times
# What is still there dies with us, and the kernel tells nobody what it used: it stands until that was looked at. Who
# takes orders stands too, so the next is ours.
kill -s STOP -- -1 2>/dev/null
echo over
read -r go <&3
# A shell waits for whoever has ended after each of its own commands: what ended since is in no process any more.
times
exit 0
}
`

/** What a path may hold that stands in a table of mounts, or among the options of one. */
const plainPath = /^[\w@%+=./-]+$/

export const isPlainPath = (path: string) => plainPath.test(path)

export const isPlainRoot = ({ lower, upper, work, target }: HeldRoot) =>
  [lower, upper, work, target].every(isPlainPath)

// The nodes that bubblewrap takes over.
const deviceNodes = ['null', 'zero', 'full', 'random', 'urandom', 'tty']
// Usually /dev is nosuid, at times noexec: in a user namespace the kernel lets no mount of it be without.
const sealing = 'bind,ro,nosuid,noexec'

/** What of the mounts is the same for every sandbox of a host. */
export type CommonMounts = {
  readonly etcLayer: string | null
  readonly layers: readonly SystemLayer[]
  /** Nodes of /dev. */
  readonly sealed: readonly string[]
}

/**
 * For everybody the one that covers hidden files: bubblewrap adds no `noexec` to what it binds, and a cover is the same
 * whoever runs this, in a sandbox that stood before too.
 */
export const sealedNodes = (sealsDevices: boolean): readonly string[] =>
  sealsDevices ? deviceNodes : ['null']

export const commonMounts = ({ view, confinement, sealsDevices }: SandboxPlan): CommonMounts => ({
  etcLayer: view.find((step) => step.kind === 'covered')?.layer.folder ?? null,
  layers: view.flatMap((step) =>
    step.kind === 'layered' ? [{ path: step.target, place: step.source }] : [],
  ),
  sealed: confinement === 'bubblewrap' ? sealedNodes(sealsDevices) : [],
})

export const overlayLine = (owner: string, name: string | number, where: string, options: string) =>
  `orangery-${owner}-${name} ${where} overlay ${options},userxattr 0 0`

export const overlayOptions = ({ lower, upper, work }: HeldRoot) =>
  `lowerdir=${lower},upperdir=${upper},workdir=${work},index=off,xino=off`

export const fstab = (lines: readonly string[]) => lines.map((line) => `${line}\n`).join('')

/**
 * What one call of `mount` does for the holder, in the form of an fstab. It passes over what it finds mounted:
 * no source is named like that of another sandbox, in which we may be.
 */
export function commonTable({ etcLayer, layers, sealed }: CommonMounts, owner: string): string {
  return fstab([
    ...layers.flatMap((layer) => {
      const name = basename(layer.place)
      const named = `/proc/self/fd/5/${name}`
      const empty = emptyBelow(layer)
      return [
        ...(empty === ''
          ? []
          : [`orangery-${owner}-${name}-empty ${named} tmpfs ${empty},X-mount.mkdir 0 0`]),
        overlayLine(owner, name, named, `lowerdir=${named}:${layer.path},X-mount.mkdir`),
      ]
    }),
    ...(etcLayer === null ? [] : [overlayLine(owner, 'etc', '/etc', 'lowerdir=/proc/self/fd/4:/etc')]),
    ...sealed.map((name) => `/dev/${name} /dev/${name} none ${sealing} 0 0`),
  ])
}

/** What `mountAll` hands to such a table. */
export const layerFolders = ({ etcLayer, layers: [first] }: CommonMounts): readonly [string, string] => [
  etcLayer ?? '',
  first === undefined ? '' : dirname(first.place),
]

/** The rest of it: the workspace. */
export function workspaceTable(plan: SandboxPlan): string {
  const roots = plan.workspaceBy === 'kernel' ? plan.roots.filter(isPlainRoot) : []
  return fstab(
    roots.map((root) => overlayLine(plan.request.id, root.slot, root.target, overlayOptions(root))),
  )
}

export const mountTable = (plan: SandboxPlan): string =>
  workspaceTable(plan) + commonTable(commonMounts(plan), plan.request.id)

/** Where the holder reads it: `mount` takes it from no pipe. It names folders, as the workspace's record does. */
export const tablePath = ({ workspace }: SandboxPlan['request']) => join(workspace.dir, 'mounts')

function rootArguments(root: HeldRoot, workspaceBy: SandboxPlan['workspaceBy']): readonly string[] {
  const { lower, upper, work } = root
  const isPlain = isPlainRoot(root)
  if (isPlain && workspaceBy === 'kernel') {
    return [String(root.slot), '', '', '', '', root.target, ...root.touched, '--']
  }
  if (!isPlain && dirname(upper) !== dirname(work)) {
    throw new OrangeryError('sandbox.layers_apart', `${root.target}: upper and work lie in different folders`)
  }
  return [
    String(root.slot),
    lower,
    ...(isPlain ? ['', upper, work] : [dirname(upper), basename(upper), basename(work)]),
    root.target,
    ...root.touched,
    '--',
  ]
}

/** Bubblewrap's options; they go through a descriptor, since every user of the host can read a command line. */
export function bubblewrapOptions(plan: SandboxPlan, terminal: string | null): readonly string[] {
  return [
    '--unshare-user',
    '--uid',
    String(plan.identity.uid),
    '--gid',
    String(plan.identity.gid),
    '--unshare-pid',
    '--unshare-net',
    '--unshare-ipc',
    '--unshare-uts',
    '--unshare-cgroup-try',
    '--hostname',
    ownName,
    '--disable-userns',
    '--cap-drop',
    'ALL',
    '--new-session',
    '--seccomp',
    String(descriptor.seccomp),
    ...viewOptions(plan.view, descriptor.given, terminal),
    '--chdir',
    plan.request.cwd,
    '--clearenv',
  ]
}

/** What bubblewrap reads from the descriptors above `given`, in order. */
export const givenContents = (plan: SandboxPlan): readonly string[] =>
  plan.view.flatMap((step) => (step.kind === 'given' ? [givenFiles[step.name]] : []))

export const bubblewrap = ({ tools }: SandboxPlan) => [
  tools.bwrap ?? 'bwrap',
  '--args',
  String(descriptor.options),
  '--',
]

function payload(plan: SandboxPlan, closesDescriptors: boolean): readonly string[] {
  const gate = gateArguments(plan, closesDescriptors)
  const affinity = plan.limits.affinity
  // Outside the filter, which keeps the agent from calling it again.
  const pinned = affinity === null ? [] : [plan.tools.taskset ?? 'taskset', '-c', affinity]
  if (plan.confinement === 'holder') {
    const { uid, gid } = plan.identity
    return [...pinned, plan.shell.unshare, '--user', `--map-user=${uid}`, `--map-group=${gid}`, '--', ...gate]
  }
  return [...pinned, ...bubblewrap(plan), ...gate]
}

function scopeAround(scope: SandboxPlan['limits']['scope'], tools: SandboxPlan['tools']): readonly string[] {
  if (scope === null) return []
  const settings = scope.properties.flatMap((property) => ['-p', property])
  return [
    tools['systemd-run'] ?? 'systemd-run',
    '--user',
    '--scope',
    '--quiet',
    '--collect',
    ...settings,
    '--',
  ]
}

/**
 * The command line of a holder. It is started before it is known what for: it makes the namespaces and waits for
 * a word, or for the end of whoever started it. The label tells whose it is to who looks at the processes.
 */
export function holderCommand(
  { shell, tools, scope }: Pick<SandboxPlan, 'shell' | 'tools'> & Pick<SandboxPlan['limits'], 'scope'>,
  label: string,
  common: CommonMounts | null = null,
): readonly string[] {
  return [
    ...scopeAround(scope, tools),
    shell.setpriv,
    '--pdeathsig',
    'KILL',
    '--',
    shell.unshare,
    '-Urmpf',
    '--mount-proc',
    '--kill-child=KILL',
    '--',
    shell.sh,
    '-c',
    `${holderScript}${waiting}`,
    'orangery-holder',
    label,
    ...(common === null ? ['', '', ''] : [shell.mount, ...layerFolders(common)]),
  ]
}

/** Mounts what every sandbox has, where that was handed to it, and says so; then waits. */
const waiting = String.raw`
set -f
if [ -n "$2" ]; then mountAll "$2" /proc/self/fd/9 "$3" "$4" && echo ready || echo bare; fi
while [ "$go" != go ]; do read -r go <&3 || exit 0; done
. /proc/self/fd/8
`

/**
 * What the holder reads when it is told to go on, down to the agent's own command. `terminal` is the host's path
 * of the agent's terminal, where it has one.
 */
export function holderOrders(
  plan: SandboxPlan,
  joinFiles: readonly string[],
  terminal: string | null,
  closesDescriptors: boolean,
  /** What is in the table of mounts. */
  mounted: 'nothing' | 'workspace' | 'all',
): string {
  const { shell, tools } = plan
  const args = [
    shell.mount,
    plan.workspaceBy === 'fuse-overlayfs' ? (tools['fuse-overlayfs'] ?? '') : '',
    mounted === 'nothing' ? '' : tablePath(plan.request),
    ...(mounted === 'all' ? layerFolders(commonMounts(plan)) : ['', '']),
    terminal ?? '',
    plan.sealsDevices ? 'seal' : '',
    plan.limits.scope === null ? '' : 'scope',
    ...joinFiles,
    '--',
    ...plan.roots.flatMap((root) => rootArguments(root, plan.workspaceBy)),
    '--',
    ...payload(plan, closesDescriptors),
  ]
  return `hold ${args.map(quote).join(' ')}\n`
}
