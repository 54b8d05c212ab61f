import { randomBytes } from 'node:crypto'
import { readFile, realpath } from 'node:fs/promises'
import { resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { SpawnRequest } from '../../../shared/api.ts'
import type { CheckResult, PreflightReport } from '../../../shared/doctor.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { makeDispatchId, type DispatchId } from '../../../shared/ids.ts'
import { misspeltFields } from '../../../shared/misspelt.ts'
import { joinHints } from '../../../shared/joinHints.ts'
import { parseSandboxSpec } from '../../../shared/spec.ts'
import { chooseCard, commandLine } from '../../agents/index.ts'
import type { Contract } from '../../base/contract.ts'
import { ensurePrivateDir } from '../../base/files.ts'
import { findKeyFolders, reachableHomes, realHomes } from '../../base/homes.ts'
import {
  capabilitiesOf,
  configNotes,
  heldProjects,
  loadConfig,
  refuseCommand,
  resolveContract,
} from '../../policy/index.ts'
import {
  checkAuth,
  checkCopy,
  checkDisk,
  checkPlatform,
  checkConfigApart,
  checkNoIntegrationMarker,
  checkNotGitFolder,
  checkWorkingDir,
  checkReachable,
  runChecks,
} from '../../preflight/index.ts'
import {
  checkCommand,
  checkGrants,
  checkLinkedRoots,
  checkUnseen,
  checkWritableFiles,
  describePlan,
  foreignNotes,
  hideNotes,
  overlaysOver,
  refuseHide,
  type HostFacts,
} from '../../sandbox/index.ts'
import type { NewDispatch } from '../../store/index.ts'
import {
  canClone,
  borrowedNotes,
  checkBorrowed,
  checkRoots,
  checkWriterAbove,
  chooseDriver,
  describeDriver,
  identifyProject,
  isInside,
  lowerRung,
  planRoots,
  type Project,
  type WorkspaceFacts,
} from '../../workspace/index.ts'
import type { InvocationMeta } from '../../base/invocation.ts'
import type { SandboxRequest } from '../../base/sandbox.ts'
import type { WorkspaceDriver } from '../../base/workspace.ts'
import { addressNotes } from './addressNotes.ts'
import { cardEnvironment } from './cardEnvironment.ts'
import { refuseCutOff } from '../landing/cutOffLandings.ts'
import { doorFolder } from '../supervise/agentDoor.ts'
import type { Job } from './job.ts'
import { landingNotes } from '../landing/landings.ts'
import type { Parts } from '../parts.ts'
import { credentialFiles, readCredentials } from './credentials.ts'
import { placeIn, placeOf, refuseOtherRoots } from './place.ts'
import { presetChecks, toldBy, withPresets } from './presets.ts'
import { readProxies } from './proxies.ts'
import { ownStartTicks } from '../../base/processes.ts'
import { checkOpenFiles } from './openFiles.ts'
import { checkHost, resolveAgent } from './provider.ts'
import { sandboxRequest } from './request.ts'
import { checkPlaces, writableNotes } from './writable.ts'
import { projectsOf, refuseEnded, rightsOf, withinParent } from './childRights.ts'

type Worked = {
  readonly request: SpawnRequest
  readonly job: Omit<Job, 'id' | 'project' | 'driver'>
  readonly contract: Contract
  readonly identified: { readonly roots: readonly string[]; readonly project: Promise<Project> }
  readonly outputChecks: readonly CheckResult[]
  readonly configNotes: readonly string[]
  readonly specNotes: readonly string[]
  readonly cardNotes: readonly string[]
  readonly parentId: DispatchId | null
  readonly invocation: InvocationMeta | null
}

/** Everything that can be said without looking at the host: bad input ends here and leaves no row. */
async function workOut(parts: Parts, request: SpawnRequest, turn: InvocationMeta | null): Promise<Worked> {
  const { card, notes: cardNotes } = await chooseCard(parts.configDir, request.agent)
  const spoken = turn === null ? card : { ...card, command: card.reworkCommand ?? card.command }
  const command = commandLine(spoken, {
    command: request.command,
    prompt: request.prompt ?? null,
    systemPrompt: request.system_prompt ?? null,
  })
  const given = request.sandbox_spec === undefined ? null : parseSandboxSpec(request.sandbox_spec)
  const place = turn === null ? await placeOf(parts, request, given) : placeIn(turn)
  const roots = place.roots.map((root) => resolve(root))
  if (turn === null) await refuseOtherRoots(roots, given?.roots)
  const { spec, expansions } = await withPresets(parts, given, card, roots)
  const parentId = request.parent === undefined ? null : parts.store.dispatches.resolve(request.parent)
  if (parentId !== null && turn === null) refuseEnded(parts, parentId)
  const named = spec?.roots ?? roots
  // Looked at beside the rest: an agent waits for this. Whoever asks for it is told what is wrong with it.
  const identified = { roots: named, project: identifyProject(named) }
  identified.project.catch(() => {})
  // A root that cannot be read has no config of its own to read; preflight says what is wrong with it.
  const readable = await Promise.all(
    named.map(async (root) => ((await checkReachable(root)).ok ? [root] : [])),
  )
  const parent = parentId === null ? null : await rightsOf(parts, parentId)
  const own = { userConfigDir: parts.configDir, roots: readable.flat() }
  const ofParent = parent === null ? [] : await projectsOf(parent, own)
  const places = { ...own, held: ofParent }
  const config = await loadConfig(places)
  const resolved = resolveContract({
    spec,
    legacySandbox: request.sandbox ?? null,
    card,
    phase: request.phase ?? null,
    role: request.role ?? null,
    roots,
    config,
    parent,
  })
  const placed = place.strategy === null ? resolved : { ...resolved, strategy: place.strategy, roots }
  const within = parent === null ? placed : await withinParent(parent, placed, spec?.root_modes)
  const written = within.strategy === 'none' ? await heldProjects(own) : []
  // What its parent is held to it is held to as well, or a child would lift it. (escape: lifted-narrowing)
  const projects = [...written, ...ofParent]
  const contract: Contract = projects.length === 0 ? within : { ...within, projects }
  await refuseHide(contract.hide, spec?.hide ?? [], contract.roots)
  refuseCommand(capabilitiesOf(contract.boundary, config).commands, command, contract.boundary)
  const size = request.size ?? { columns: 120, rows: 40 }
  const entersInvocation = place.invocation !== null
  const { trusted } = place
  const env = cardEnvironment(card, process.env, request.env)
  const { grants, checks } = await readCredentials(config.sandboxCredentials, contract, env)
  const { proxies, checks: proxyChecks } = readProxies(
    process.env,
    contract.outputs,
    config.sandboxProxyResolves,
  )
  const aboutConfig = configNotes(config)
  const aboutSpec = misspeltFields(given)
  // A copy that was made before has a tree of its own.
  if (place.invocation === null || contract.strategy !== 'clone')
    await refuseCutOff(parts, contract, identified.project)
  const missesGit = contract.level > 0 && contract.strategy !== 'worktree'
  const aboutGit = missesGit
    ? await identified.project.then((found) => borrowedNotes(found, contract)).catch(() => [])
    : []
  const job = {
    name: request.name ?? null,
    card,
    command,
    prompt: request.prompt ?? null,
    systemPrompt: request.system_prompt ?? null,
    contract,
    env,
    told: toldBy(expansions),
    credentials: grants,
    proxies,
    size,
    entersInvocation,
    continues: turn?.invocation_id ?? null,
    trusted,
    notes: [
      ...aboutSpec,
      ...place.notes,
      ...aboutGit,
      ...(await landingNotes(parts, contract, identified.project)),
      ...writableNotes(contract),
      ...addressNotes(contract),
      ...aboutConfig,
      ...cardNotes,
    ],
    config,
  }
  const outputChecks = [...presetChecks(expansions), ...checks, ...proxyChecks]
  const { invocation } = place
  const notes = { configNotes: aboutConfig, specNotes: aboutSpec, cardNotes }
  return { request, job, contract, identified, outputChecks, ...notes, parentId, invocation }
}

type Examined = {
  readonly report: PreflightReport
  readonly project: Project | null
  readonly driver: WorkspaceDriver | null
  /** The sandbox in words, for whoever asks; null where it cannot be made. */
  readonly describe: (() => string) | null
  /** What of the protection is less on this host. */
  readonly lesser: readonly string[]
}

/** Every check before anything starts. What the checks found out on the way is handed on. */
async function examine(parts: Parts, worked: Worked): Promise<Examined> {
  const { contract, job, invocation, outputChecks, identified } = worked
  let project: Project | null = null
  let driver: WorkspaceDriver | null = null
  let describe: Examined['describe'] = null
  let lesser: Examined['lesser'] = []
  const [reachable] = await Promise.all([
    Promise.all(contract.roots.map((root) => checkReachable(root))),
    ensurePrivateDir(parts.layout.dataDir),
  ])
  const isReachable = reachable.every((result) => result.ok)
  const isKnown = isDeepStrictEqual(identified.roots, contract.roots)
  const identify = () => (isKnown ? identified.project : identifyProject(contract.roots))
  const identifying = isReachable ? identify() : null
  // The check that asks first tells what is wrong with them.
  identifying?.catch(() => {})
  const report = await runChecks({
    platform: async () => checkPlatform(contract, process.platform),
    outputs: async () => [...outputChecks, ...(await checkOpenFiles(contract.outputs))],
    notes: async () =>
      job.notes.map((detail) => {
        const about = { spec: worked.specNotes, config: worked.configNotes, 'agent card': worked.cardNotes }
        const [name = 'left out'] = Object.entries(about).find(([, said]) => said.includes(detail)) ?? []
        return { name, ok: true, detail, fix: null }
      }),
    roots: async () => {
      if (identifying === null) return reachable
      project = await identifying
      const [mounts, dataDir, homes] = await Promise.all([
        readFile('/proc/self/mountinfo', 'utf8').catch(() => ''),
        realpath(parts.layout.dataDir),
        reachableHomes().then(realHomes),
      ])
      const keyFolders = findKeyFolders(homes)
      const workingDir = contract.level === 0 ? null : contract.workingDir
      return [
        ...reachable,
        ...project.roots.map(({ path }) => checkNotGitFolder(path)),
        ...checkRoots(project, dataDir, mounts, { ...contract, homes, keyFolders }),
        ...(await checkWriterAbove(parts.layout, project.roots)),
        ...(contract.strategy === 'worktree' && contract.level > 0
          ? [await checkBorrowed(project, contract.level)]
          : []),
        ...(workingDir === null ? [] : [checkWorkingDir(workingDir, contract.roots)]),
      ]
    },
    'direct write': async () =>
      contract.strategy === 'none'
        ? [
            ...(await Promise.all(contract.roots.map(checkNoIntegrationMarker))),
            ...(await Promise.all(contract.roots.map((root) => checkConfigApart(root, parts.configDir)))),
          ]
        : [],
    'writable places': async () => checkPlaces(contract),
    disk: () => checkDisk(parts.layout.dataDir, contract.limits.disk_mb),
    account: () => checkAuth(job.card),
    sandbox: async () => {
      const [host, found, dataDir] = await Promise.all([
        parts.host(),
        identifying?.catch(() => null) ?? null,
        realpath(parts.layout.dataDir),
      ])
      // The check of the roots says what is wrong with them. Of the host everything is said all the same.
      if (found === null || found.roots.some(({ path }) => isInside(dataDir, path)))
        return checkHost(contract, host)
      const isMade = invocation !== null && invocation.status !== 'starting'
      const facts = await workspaceFacts(host, contract, found, dataDir)
      driver = isMade ? invocation.driver : chooseDriver(found, contract.strategy, facts)
      const trial = trialRequest(parts, {
        ...job,
        id: '00000000000000-0000' as DispatchId,
        project: found,
        driver,
      })
      const [foreign, unhidden] = [foreignNotes(trial, host), hideNotes(trial)]
      const command = job.card.command.length === 0 ? [] : checkCommand(trial, host, !isMade)
      const agent = resolveAgent(job.card, contract, host)
      const available = agent.isAvailable(trial)
      if (!available.check.ok) return available.check
      lesser = [...available.lesser, ...(await foreign), ...(await unhidden)]
      describe = () => describePlan(agent.plan(trial))
      return [
        {
          ...available.check,
          detail: `${available.check.detail}; ${describeDriver(driver, contract.strategy)}`,
        },
        ...lesser.map((detail) => ({ name: 'sandbox', ok: true, detail, fix: null })),
        ...(driver === 'plain-copy' && !isMade ? [await checkCopy(dataDir, copiedFolders(trial))] : []),
        ...(await command),
        ...(await checkGrants(trial)),
        ...(await checkLinkedRoots(trial, host)),
        ...(await checkUnseen(trial, host, credentialFiles(job.config.sandboxCredentials))),
        ...(await checkWritableFiles(trial)),
      ]
    },
  })
  return { report, project, driver, describe, lesser }
}

const copiedFolders = ({ workspace }: SandboxRequest): readonly string[] =>
  workspace.roots.flatMap(({ mount, path }) => (mount.kind === 'bind' && mount.source !== path ? [path] : []))

/** What can carry these roots. Whether they can be cloned is tried only where that matters. */
async function workspaceFacts(
  host: HostFacts,
  { strategy }: Contract,
  { roots, commonDir }: Project,
  dataDir: string,
): Promise<WorkspaceFacts> {
  const folders = roots.map(({ path }) => path)
  const below = commonDir === null ? folders : [...folders, commonDir]
  const { kernelOverlay, fuseOverlayfs } = await overlaysOver(below, host, dataDir)
  const mayCopy = strategy === 'clone' || (strategy === 'overlay' && !kernelOverlay && !fuseOverlayfs)
  return { kernelOverlay, fuseOverlayfs, reflink: mayCopy && (await canClone(folders, dataDir)) }
}

/** The sandbox as it would be, planned but not made: what the host cannot do shows here. */
function trialRequest(parts: Parts, job: Job) {
  const dir = parts.layout.sandbox(job.project.repoId, job.id)
  const roots = planRoots(job.project, job.driver, job.contract.rootModes, dir)
  const { contract } = job
  const workspace = {
    id: job.id,
    repoId: job.project.repoId,
    strategy: contract.strategy,
    driver: job.driver,
    dir,
    roots,
    createdAtMs: 0,
  }
  const door = contract.level === 0 ? null : { folder: doorFolder(dir) }
  return sandboxRequest(parts, job, workspace, true, null, door)
}

function failure(report: PreflightReport): OrangeryError {
  const failed = report.checks.filter((check) => !check.ok)
  const reasons = failed.map((check) => `${check.name}: ${check.detail}`).join('; ')
  const fixes = failed.map((check) => check.fix).filter((fix) => fix !== null)
  return new OrangeryError('preflight.failed', `preflight: ${reasons}`, {
    kind: 'preflight',
    hint: fixes.length > 0 ? joinHints(fixes) : 'Run `orangery doctor` to see what this host can do.',
    details: report,
  })
}

/** Checks what a spawn would need, without spawning. */
export async function preflight(parts: Parts, request: SpawnRequest): Promise<PreflightReport> {
  const { report, describe } = await examine(parts, await workOut(parts, request, null))
  return describe === null ? report : { ...report, plan: describe() }
}

/**
 * From a request to a recorded job that may start. Failed checks leave a row that says why, and nothing else:
 * no invocation, no sandbox, no process. `turn`: the invocation it goes on in, after a review.
 */
export async function prepare(
  parts: Parts,
  request: SpawnRequest,
  turn: InvocationMeta | null = null,
): Promise<Job> {
  const worked = await workOut(parts, request, turn)
  const { report, project, driver, lesser } = await examine(parts, worked)
  const passed = report.ok && project !== null && driver !== null
  const error = passed ? null : failure(report)
  const id = await record(parts, worked, project, error)
  if (error !== null || project === null || driver === null) {
    throw new OrangeryError(error?.code ?? 'preflight.failed', error?.message ?? 'preflight: failed', {
      kind: 'preflight',
      ...(error?.hint === undefined ? {} : { hint: error.hint }),
      details: { id, report },
    })
  }
  const rung = lowerRung(driver, worked.contract.strategy)
  return { ...worked.job, id, project, driver, notes: [...worked.job.notes, ...rung, ...lesser] }
}

/** Two dispatches of one second may draw the same four digits: the later one draws again. */
async function record(
  parts: Parts,
  worked: Worked,
  project: Project | null,
  error: OrangeryError | null,
): Promise<DispatchId> {
  const { request, contract, job, parentId } = worked
  const supervisorPid = process.pid
  const supervisorStartTicks = await ownStartTicks()
  for (let attempt = 0; ; attempt++) {
    const now = new Date()
    const fresh = error !== null || worked.invocation === null || job.continues !== null
    const id = fresh ? makeDispatchId(now, randomBytes(2)) : worked.invocation.invocation_id
    const row: NewDispatch = {
      id,
      repoId: project?.repoId ?? null,
      parentId,
      name: request.name ?? null,
      agent: request.agent,
      role: request.role ?? null,
      phase: contract.phase,
      prompt: request.prompt ?? null,
      sandbox: request.sandbox ?? null,
      sandboxSpec: request.sandbox_spec ?? null,
      level: contract.level,
      boundary: contract.boundary,
      roots: contract.roots,
      command: job.command,
      status: error === null ? 'starting' : 'preflight_failed',
      error: error?.message ?? null,
      createdAt: now.toISOString(),
      supervisorPid,
      supervisorStartTicks,
    }
    try {
      // A further turn goes on with what there is, as a person asked after the review.
      // It is on the disk before the agent's first instruction: its supervisor sees to that.
      const parent = job.continues === null ? 'running' : 'any'
      parts.store.dispatches.create(row, { parent, synced: error !== null })
      return id
    } catch (reason) {
      const again = reason instanceof OrangeryError && reason.code === 'dispatch.exists' && fresh
      if (!again || attempt > 50) throw reason
    }
  }
}
