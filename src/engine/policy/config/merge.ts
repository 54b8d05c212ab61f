import { homedir } from 'node:os'
import { isAbsolute, join, normalize } from 'node:path'
import { boundaryLevels, phases } from '../../../shared/boundary.ts'
import type {
  EffectiveApproval,
  EffectiveConfig,
  LevelOverride,
  Provenance,
  ResolvedLevel,
  SavedApproval,
  SelectionRule,
  TrustState,
} from '../../../shared/config.ts'
import { narrowConfig, narrowerBoundary, unique, valueAt } from './narrow.ts'
import type { ConfigLayer } from './read.ts'
import { approvalDigest } from './trust.ts'

const emptyLevel: ResolvedLevel = {
  hosts: null,
  deniedHosts: [],
  writable: null,
  hide: [],
  tools: { allow: null, deny: [] },
  commands: { allow: null, deny: [] },
}

const defaults = {
  sandboxEnabled: true,
  sandboxBoundaries: { plan: 'readonly', build: 'readwrite', learn: 'readonly' },
  sandboxPhaseFiles: { plan: ['TODO.md'], build: [], learn: ['AGENTS.md'] },
  sandboxLevels: {
    readonly: { ...emptyLevel, writable: [] },
    readwrite: emptyLevel,
    network: emptyLevel,
    full: emptyLevel,
  },
  sandboxMaximumBoundary: 'full',
  sandboxEscalationPolicy: 'prompt',
  sandboxEscalationWait: 0,
  sandboxAutoEscalation: { hosts: [], roots: [] },
  sandboxApprovedEscalations: [],
  sandboxCredentials: [],
  sandboxProxyResolves: false,
  sandboxSelection: [],
  agentForbiddenTools: ['AskUserQuestion'],
  agentInactivityTimeout: 0,
  changesetProtectedPaths: [],
} as const satisfies Record<string, unknown>

/** Every key a value can come from, with dots for the nested ones. */
const configKeys: readonly string[] = Object.keys(defaults).flatMap((key) => {
  if (key === 'sandboxBoundaries' || key === 'sandboxPhaseFiles')
    return phases.map((phase) => `${key}.${phase}`)
  if (key === 'sandboxLevels') {
    return boundaryLevels.flatMap((level) =>
      Object.keys(emptyLevel).map((field) => `${key}.${level}.${field}`),
    )
  }
  return [key]
})

export function defaultConfig(): EffectiveConfig {
  const origin: Provenance = { source: 'default', file: null, line: null }
  return {
    ...(structuredClone(defaults) as unknown as EffectiveConfig),
    provenance: Object.fromEntries(configKeys.map((key) => [key, [origin]])),
    heldBack: [],
    warnings: [],
    projects: [],
  }
}

/** A folder named in the user's file: absolute, or under home. Relative ones would mean whatever the cwd is. */
export function userFolder(path: string): string | null {
  const expanded = path === '~' || path.startsWith('~/') ? join(homedir(), path.slice(1)) : path
  return isAbsolute(expanded) ? trimmed(normalize(expanded)) : null
}
const trimmed = (path: string): string => (path.length > 1 ? path.replace(/\/+$/, '') : path)

/** A folder named in a project's file: inside the project, whatever it says. */
function projectFolder(project: string, path: string): string | null {
  if (isAbsolute(path)) return null
  const folder = trimmed(normalize(join(project, path)))
  return folder === project || folder.startsWith(`${project}/`) ? folder : null
}

function placedApproval(
  approval: SavedApproval,
  index: number,
  layer: ConfigLayer,
  project: string | null,
  now: Date,
): EffectiveApproval {
  const named = approval.roots?.map((path) =>
    project === null ? userFolder(path) : projectFolder(project, path),
  )
  return {
    ...approval,
    id: approvalDigest(approval),
    source: project === null ? 'user' : 'project',
    file: layer.file,
    line: layer.lineOf(['sandboxApprovedEscalations', index]),
    // A folder we cannot place covers nothing; an empty list covers no root at all.
    covers: named?.filter((path) => path !== null) ?? (project === null ? null : [project]),
    expired: approval.expires !== undefined && new Date(approval.expires).getTime() <= now.getTime(),
  }
}

/** A folder that cannot be placed covers nothing; whoever wrote it should know. */
function misplacedFolders(layer: ConfigLayer, project: string | null): EffectiveConfig['warnings'] {
  const message =
    project === null
      ? 'covers nothing: write an absolute folder or ~/…'
      : 'covers nothing: it leaves the project'
  return (layer.values.sandboxApprovedEscalations ?? []).flatMap(({ roots = [] }, index) =>
    roots.flatMap((folder, at) => {
      const placed = project === null ? userFolder(folder) : projectFolder(project, folder)
      if (placed !== null) return []
      const path = ['sandboxApprovedEscalations', index, 'roots', at]
      return [{ file: layer.file, line: layer.lineOf(path), key: path.join('.'), message }]
    }),
  )
}

/** Both must match: whoever names hosts alone would wait for what never happens. */
function hostsWithoutRoots(layer: ConfigLayer): EffectiveConfig['warnings'] {
  const { hosts = [], roots = [] } = layer.values.sandboxAutoEscalation ?? {}
  if (hosts.length === 0 || roots.some((path) => userFolder(path) !== null)) return []
  const key = 'sandboxAutoEscalation'
  const message = 'widens nothing without roots: name absolute folders or ~/… for its hosts'
  return [{ file: layer.file, line: layer.lineOf([key]), key, message }]
}

function overlaidLevel(base: ResolvedLevel, override: LevelOverride): ResolvedLevel {
  return {
    hosts: override.hosts ?? base.hosts,
    deniedHosts: unique([...base.deniedHosts, ...(override.deniedHosts ?? [])]),
    writable: override.writable ?? base.writable,
    hide: unique([...base.hide, ...(override.hide ?? [])]),
    tools: overlaidTools(base.tools, override.tools),
    commands: overlaidTools(base.commands, override.commands),
  }
}
function overlaidTools(
  base: ResolvedLevel['tools'],
  override: LevelOverride['tools'],
): ResolvedLevel['tools'] {
  return { allow: override?.allow ?? base.allow, deny: unique([...base.deny, ...(override?.deny ?? [])]) }
}

/** Lays a file over what is below it: its values replace, its denials and protections add. */
function overlay(
  base: EffectiveConfig,
  layer: ConfigLayer,
  project: string | null,
  now: Date,
): EffectiveConfig {
  const { values } = layer
  const merged: EffectiveConfig = structuredClone(base)
  merged.sandboxEnabled = values.sandboxEnabled ?? base.sandboxEnabled
  for (const phase of phases) {
    merged.sandboxBoundaries[phase] = values.sandboxBoundaries?.[phase] ?? base.sandboxBoundaries[phase]
    merged.sandboxPhaseFiles[phase] = values.sandboxPhaseFiles?.[phase] ?? base.sandboxPhaseFiles[phase]
  }
  for (const level of boundaryLevels) {
    const override = values.sandboxLevels?.[level]
    if (override !== undefined)
      merged.sandboxLevels[level] = overlaidLevel(base.sandboxLevels[level], override)
  }
  // A ceiling is a ceiling: the file above can lower it, never lift it.
  merged.sandboxMaximumBoundary = narrowerBoundary(
    base.sandboxMaximumBoundary,
    values.sandboxMaximumBoundary ?? base.sandboxMaximumBoundary,
  )
  merged.sandboxEscalationPolicy = values.sandboxEscalationPolicy ?? base.sandboxEscalationPolicy
  merged.sandboxEscalationWait = values.sandboxEscalationWait ?? base.sandboxEscalationWait
  if (values.sandboxAutoEscalation !== undefined) {
    const { hosts, roots } = values.sandboxAutoEscalation
    merged.sandboxAutoEscalation = { hosts, roots: roots.map(userFolder).filter((path) => path !== null) }
  }
  merged.sandboxApprovedEscalations = [
    ...(values.sandboxApprovedEscalations ?? []).map((approval, index) =>
      placedApproval(approval, index, layer, project, now),
    ),
    ...base.sandboxApprovedEscalations,
  ]
  merged.sandboxCredentials = values.sandboxCredentials ?? base.sandboxCredentials
  merged.sandboxProxyResolves = values.sandboxProxyResolves ?? base.sandboxProxyResolves
  merged.sandboxSelection = [...(values.sandboxSelection ?? []), ...base.sandboxSelection]
  merged.agentForbiddenTools = values.agentForbiddenTools ?? base.agentForbiddenTools
  merged.agentInactivityTimeout = values.agentInactivityTimeout ?? base.agentInactivityTimeout
  merged.changesetProtectedPaths = unique([
    ...base.changesetProtectedPaths,
    ...(values.changesetProtectedPaths ?? []),
  ])
  merged.warnings = [
    ...base.warnings,
    ...layer.warnings,
    ...misplacedFolders(layer, project),
    ...hostsWithoutRoots(layer),
  ]
  for (const key of configKeys) {
    if (valueAt(values, key) === undefined) continue
    // What a file asked for and did not get did not come from there.
    if (key === 'sandboxMaximumBoundary' && valueAt(merged, key) !== valueAt(values, key)) continue
    const origin: Provenance = {
      source: project === null ? 'user' : 'project',
      file: layer.file,
      line: layer.lineOf(key.split('.')),
    }
    const joined = joins.has(key) || joins.has(key.split('.').at(-1) ?? '')
    const below = (base.provenance[key] ?? []).filter((source) => source.source !== 'default')
    merged.provenance[key] = joined ? [origin, ...below] : [origin]
  }
  return merged
}
const joins = new Set([
  'sandboxApprovedEscalations',
  'sandboxSelection',
  'changesetProtectedPaths',
  'deniedHosts',
  'hide',
  'tools',
  'commands',
])

type ProjectFile = {
  /** Real path of the folder it holds for. */
  readonly project: string
  /** Real path of the folder the file lies in (or would): in a linked worktree perhaps that of the main one. */
  readonly home: string
  readonly file: string
  readonly layer: ConfigLayer | null
  readonly trust: TrustState
  /** Digests of approvals in this file that the user saved from here. */
  readonly ownApprovals: readonly string[]
}
export type ProjectLayer = ProjectFile & {
  readonly root: string
  /** The file of the main worktree, beside the one that holds here: what it approves counts here, too. */
  readonly shared?: ProjectFile
}

/** What a file approves by the user's word: all of it where it is trusted, else what he saved there. */
function approvedBy({ layer, project, trust, ownApprovals }: ProjectFile, now: Date): EffectiveApproval[] {
  const own = new Set(ownApprovals)
  return (layer?.values.sandboxApprovedEscalations ?? [])
    .map((approval, index) => placedApproval(approval, index, layer as ConfigLayer, project, now))
    .filter(({ id }) => trust === 'trusted' || own.has(id))
}

/** Those of the main worktree behind those of this one; the same in both is one. */
function withShared(config: EffectiveConfig, shared: ProjectFile | undefined, now: Date): EffectiveConfig {
  if (shared === undefined) return config
  const known = config.sandboxApprovedEscalations
  const isNew = ({ id }: EffectiveApproval) =>
    !known.some((other) => other.id === id && other.source === 'project')
  const { project = [], user = [] } = Object.groupBy(known, ({ source }) => source)
  const more = approvedBy(shared, now).filter(isNew)
  if (more.length === 0) return config
  const key = 'sandboxApprovedEscalations'
  const line = shared.layer?.lineOf([key]) ?? null
  const said = Object.groupBy(config.provenance[key] ?? [], ({ source }) => source)
  const there: Provenance = { source: 'project', file: shared.file, line }
  const provenance = { ...config.provenance, [key]: [...(said.project ?? []), there, ...(said.user ?? [])] }
  return { ...config, provenance, [key]: [...project, ...more, ...user] }
}

function aboveLevelZero({ level, ...rule }: SelectionRule): SelectionRule[] {
  if (level !== 0) return [level === undefined ? rule : { ...rule, level }]
  return rule.minimum === undefined ? [] : [rule]
}

/** What a repository's file can never say, trusted or not. */
function withoutUserOnly(layer: ConfigLayer): { layer: ConfigLayer; heldBack: EffectiveConfig['heldBack'] } {
  const {
    sandboxEnabled,
    sandboxAutoEscalation,
    sandboxCredentials,
    sandboxProxyResolves,
    sandboxSelection,
    ...rest
  } = layer.values
  const heldBack: EffectiveConfig['heldBack'] = []
  const hold = (key: string, message: string) =>
    heldBack.push({ file: layer.file, line: layer.lineOf([key]), key, message })
  if (sandboxEnabled === false) hold('sandboxEnabled', 'a repository cannot switch the sandbox off')
  if (sandboxAutoEscalation !== undefined) hold('sandboxAutoEscalation', 'only the user file may name these')
  if (sandboxCredentials !== undefined) hold('sandboxCredentials', 'only the user file may name secrets')
  if (sandboxProxyResolves === true)
    hold('sandboxProxyResolves', 'only the user file may let a proxy say where names lead')
  // Level 0 is no sandbox, by another name. (escape: selected-level-zero)
  if (sandboxSelection?.some(({ level }) => level === 0) === true)
    hold('sandboxSelection', 'a repository cannot select level 0, which is no sandbox')
  const values = {
    ...rest,
    ...(sandboxEnabled === true ? { sandboxEnabled } : {}),
    ...(sandboxSelection === undefined ? {} : { sandboxSelection: sandboxSelection.flatMap(aboveLevelZero) }),
  }
  return { layer: { ...layer, values }, heldBack }
}

function withProject(user: EffectiveConfig, given: ProjectLayer, now: Date): EffectiveConfig {
  const state = {
    root: given.root,
    file: given.file,
    trust: given.trust,
    sha256: given.layer?.sha256 ?? null,
  }
  if (given.layer === null) return { ...user, projects: [state] }
  const { layer, heldBack } = withoutUserOnly(given.layer)
  const asked = overlay(user, layer, given.project, now)
  const ceiling = layer.values.sandboxMaximumBoundary
  if (ceiling !== undefined && ceiling !== asked.sandboxMaximumBoundary) {
    const key = 'sandboxMaximumBoundary'
    heldBack.push({
      file: layer.file,
      line: layer.lineOf([key]),
      key,
      message: 'can be lowered, never lifted',
    })
  }
  if (given.trust === 'trusted') return { ...asked, heldBack, projects: [state] }
  const own = new Set(given.ownApprovals)
  const mine = asked.sandboxApprovedEscalations.filter(
    (approval) => approval.source !== 'project' || own.has(approval.id),
  )
  const granted: EffectiveConfig = {
    ...narrowConfig(user, { ...asked, sandboxApprovedEscalations: mine }),
    // Project before user: the first approval that covers a request is the one that is named.
    sandboxApprovedEscalations: mine,
    warnings: asked.warnings,
  }
  const why =
    given.trust === 'changed' ? 'the file has changed since you trusted it' : 'the file is not trusted'
  for (const key of configKeys) {
    if (valueAt(layer.values, key) === undefined) continue
    const got = JSON.stringify(valueAt(granted, key))
    if (got === JSON.stringify(valueAt(asked, key))) continue
    heldBack.push({
      file: layer.file,
      line: layer.lineOf(key.split('.')),
      key,
      message: `would widen, and ${why}`,
    })
    if (got === JSON.stringify(valueAt(user, key))) granted.provenance[key] = user.provenance[key] ?? []
  }
  return { ...granted, heldBack, projects: [state] }
}

/**
 * Project over user over defaults. A project's file that is not trusted can only narrow. With several roots,
 * each with its own file, what they all allow holds for the dispatch that spans them.
 */
export function mergeConfig(
  user: ConfigLayer | null,
  projects: readonly ProjectLayer[],
  now: Date,
  held: readonly ProjectLayer[] = [],
): EffectiveConfig {
  const base = user === null ? defaultConfig() : overlay(defaultConfig(), user, null, now)
  // What a repository's own file forbids is not lifted by another one in a worktree of it that nobody trusts.
  const under = ({ trust, shared, root }: ProjectLayer) =>
    trust === 'trusted' || shared === undefined
      ? base
      : narrowConfig(base, onlyNarrowing(withProject(base, { ...shared, root }, now), base))
  const [first, ...others] = projects.map((project) =>
    withShared(withProject(under(project), project, now), project.shared, now),
  )
  const merged = others.reduce(narrowConfig, first ?? base)
  return held.map((layer) => onlyNarrowing(withProject(base, layer, now), base)).reduce(narrowConfig, merged)
}

/**
 * What a file said that an agent on the real files has changed, taken away or put another before since: it goes on
 * narrowing, and approves nothing. (escape: lifted-narrowing)
 */
const onlyNarrowing = (config: EffectiveConfig, base: EffectiveConfig): EffectiveConfig => ({
  ...config,
  sandboxApprovedEscalations: base.sandboxApprovedEscalations,
  heldBack: [],
  warnings: [],
  projects: [],
})
