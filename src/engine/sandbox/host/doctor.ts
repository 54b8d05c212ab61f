import type { CheckResult, DoctorReport, LevelReport } from '../../../shared/doctor.ts'
import { levelNames } from '../../../shared/level.ts'
import { isOldBubblewrap, newBubblewrap } from './bubblewrap.ts'
import { detectHost, type Ability, type HostFacts, type ToolName } from './host.ts'
import { breaksOverlays, elsewhere } from './overlays.ts'
import { lesserOn } from '../plan/lesserView.ts'
import { groupHint, memoryHint, noGroup } from '../limits/limits.ts'
import { noProcessLimit } from '../limits/rlimit.ts'

function check(name: string, ability: Ability, detail: string): CheckResult {
  return ability.ok
    ? { name, ok: true, detail, fix: null }
    : { name, ok: false, detail: ability.why, fix: ability.fix }
}

const packages: Partial<Record<ToolName, string>> = {
  bwrap: 'bubblewrap',
  mount: 'mount',
  git: 'git',
  mkfifo: 'coreutils',
  find: 'findutils',
  getfattr: 'attr',
  bash: 'bash',
}

function toolCheck(host: HostFacts, name: ToolName): CheckResult {
  const path = host.tools[name]
  const fix = `sudo apt install ${packages[name] ?? 'util-linux'}`
  return { name, ok: path !== null, detail: path ?? 'not installed', fix: path === null ? fix : null }
}

function bubblewrapChecks(host: HostFacts): readonly CheckResult[] {
  const installed = toolCheck(host, 'bwrap')
  if (!installed.ok) return [installed]
  if (host.bubblewrap === null) {
    const fix = 'sudo apt install --reinstall bubblewrap'
    const detail = `${host.tools.bwrap ?? 'bwrap'} does not tell its version`
    return [{ name: 'bubblewrap version', ok: false, detail, fix }]
  }
  const { version, isSetuid, starts } = host.bubblewrap
  const isNew = !isOldBubblewrap(version)
  return [
    {
      name: 'bubblewrap version',
      ok: isNew,
      detail: isNew ? version : `${version} is older than 0.8`,
      fix: isNew ? null : newBubblewrap,
    },
    {
      name: 'bubblewrap privileges',
      ok: !isSetuid,
      detail: isSetuid ? 'installed set-uid root, which cannot refuse nested user namespaces' : 'none',
      fix: isSetuid ? `sudo chmod u-s ${host.tools.bwrap ?? 'bwrap'}` : null,
    },
    // What is told above would be the cause.
    ...(isSetuid || !isNew || !host.userNamespaces.ok ? [] : [check('bubblewrap starts', starts, 'tried')]),
  ]
}

/** The first step of the ladder this host can do. */
export function workspaceOf(host: HostFacts): string {
  if (host.overlay.ok) return 'kernel-overlay'
  return host.fuseOverlay.ok ? 'fuse-overlayfs' : 'copy'
}

function levelReport(level: 0 | 1, host: HostFacts): LevelReport {
  const common = [
    check('data folder', host.dataFolder, 'can be written'),
    check('user namespaces', host.userNamespaces, 'available to this user'),
    ...(host.inheritsDescriptors && host.tools.bash === null ? [toolCheck(host, 'bash')] : []),
    ...(['sh', 'unshare', 'setpriv', 'setsid', 'mount', 'git', 'getfattr', 'find'] as const).map((name) =>
      toolCheck(host, name),
    ),
  ]
  const overlay = check('kernel overlay', host.overlay, `works on ${host.filesystem}`)
  // Without a place to write or a namespace to mount in they are not tried: one cause is told once.
  const isUntried = !host.dataFolder.ok || !host.userNamespaces.ok
  const workspace = host.overlay.ok
    ? [overlay]
    : isUntried
      ? []
      : [overlay, check('fuse-overlayfs', host.fuseOverlay, 'works')]
  const confined =
    level === 0
      ? []
      : [
          ...bubblewrapChecks(host),
          toolCheck(host, 'nsenter'),
          ...(host.tools.find === null ? [] : [check('search for secrets', host.secretSearch, 'done')]),
        ]
  const seesDenied = host.tools.perl !== null && host.tools.nsenter !== null
  const denied: CheckResult = {
    name: 'denied writes',
    ok: seesDenied,
    detail: seesDenied ? 'seen, by a listener in perl' : 'not seen: who needs to write asks',
    fix: seesDenied ? null : 'sudo apt install perl-base util-linux',
  }
  // Nor are layers of interest to who has no sandbox: what keeps it from starting may keep them too.
  const hasGround = host.userNamespaces.ok && host.dataFolder.ok && host.bubblewrap?.starts.ok !== false
  const lesser = level === 0 || !hasGround ? [] : lesserOn(host)
  const layers = lesser.map((detail): CheckResult => ({
    name: 'layers over the system',
    ok: false,
    detail,
    fix: breaksOverlays(host.filesystem)
      ? elsewhere
      : 'Unmount what is mounted inside (`findmnt` lists it), or use Linux 5.11 or newer.',
  }))
  const required = [...common, ...confined]
  // There the agent sees the host's own files, so no copy can take their place.
  const hasNone = level === 0 && workspaceOf(host) === 'copy'
  const onlyReal: readonly CheckResult[] = hasNone
    ? [
        {
          name: 'workspace',
          ok: false,
          detail:
            'level 0 shows no copy in the place of a folder: here it writes the real files (--changeset none), or not at all',
          fix: host.overlay.ok ? null : host.overlay.fix,
        },
      ]
    : []
  return {
    level,
    name: levelNames[level],
    available: required.every(({ ok }) => ok),
    driver:
      level === 0 ? 'bare-cli' : host.bubblewrap === null ? null : `bubblewrap ${host.bubblewrap.version}`,
    workspace: hasNone ? 'none' : workspaceOf(host),
    // Only a host that stays is quicker by it.
    checks: [...required, ...workspace, ...onlyReal, toolCheck(host, 'mkfifo'), denied, ...layers],
  }
}

const notHere = (why: string, hint: string) =>
  `not here: ${why}. A spec that asks for it fails preflight. ${hint}`

function limitMeans(host: HostFacts): DoctorReport['limits'] {
  const { cgroups } = host
  const by = (controller: 'memory' | 'cpu' | 'pids', otherwise: string) => {
    if (cgroups.kind === 'systemd')
      return cgroups.hands.includes(controller) ? 'systemd user scope' : otherwise
    if (cgroups.kind === 'none') return otherwise
    return cgroups.parents[controller] === undefined ? otherwise : `cgroup ${cgroups.kind}`
  }
  const pidsHint = noProcessLimit(host)
  return {
    memory: by('memory', notHere(noGroup(cgroups, 'memory'), groupHint(cgroups, memoryHint))),
    cpus: by(
      'cpu',
      host.tools.taskset === null
        ? notHere(noGroup(cgroups, 'cpu'), groupHint(cgroups, 'sudo apt install util-linux'))
        : groupHint(cgroups, 'CPU affinity, whole numbers only.'),
    ),
    pids: by(
      'pids',
      pidsHint === null
        ? 'RLIMIT_NPROC in its own user namespace'
        : notHere(noGroup(cgroups, 'pids'), groupHint(cgroups, pidsHint)),
    ),
    disk: 'the workspace is watched and the run stopped',
    time: 'timer of the supervisor',
  }
}

/** Containers and virtual machines are not part of this release; nothing of the host could change that. */
function notBuilt(level: 2 | 3): LevelReport {
  const detail = 'not part of this release of Orangery'
  return {
    level,
    name: levelNames[level],
    available: false,
    driver: null,
    workspace: null,
    checks: [{ name: 'driver', ok: false, detail, fix: 'Use level 1.' }],
  }
}

/** What this host can do per level, tried rather than guessed. */
export async function doctor(dataDir: string): Promise<DoctorReport> {
  const host = await detectHost(dataDir)
  return {
    platform: host.platform,
    kernel: host.kernel,
    data_dir: dataDir,
    levels: [levelReport(0, host), levelReport(1, host), notBuilt(2), notBuilt(3)],
    limits: limitMeans(host),
  }
}
