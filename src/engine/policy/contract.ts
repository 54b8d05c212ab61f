import { basename, resolve } from 'node:path'
import {
  boundaryLevels,
  boundaryRank,
  legacyBoundaries,
  type BoundaryLevel,
  type Phase,
} from '../../shared/boundary.ts'
import type { AgentCard } from '../../shared/card.ts'
import type { EffectiveConfig } from '../../shared/config.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { notAHost, parseHostPattern, parsePinAddress } from '../../shared/hosts.ts'
import { isolationOfLevel, levelNames, levelOfIsolation, type SandboxLevel } from '../../shared/level.ts'
import { requestedBoundary, type RootModes, type SandboxSpec } from '../../shared/spec.ts'
import type { Contract, ContractOutputs } from '../base/contract.ts'
import { capabilitiesOf, reachingOutputs, usualBoundary } from './capabilities.ts'
import { narrowerBoundary, unique } from './config/narrow.ts'
import { underParent } from './parent.ts'
import { isInside, writableOf } from './scope.ts'

export type ContractInput = {
  readonly spec: SandboxSpec | null
  /** Seed 0's string, superseded by `access_mode` and `boundary` of the spec. */
  readonly legacySandbox: string | null
  readonly card: AgentCard
  readonly phase: Phase | null
  readonly role: string | null
  readonly roots: readonly string[]
  readonly config: EffectiveConfig
  readonly parent: Contract | null
}

function contradiction(what: string, why: string, hint: string): OrangeryError {
  return new OrangeryError('spec.contradiction', `${what}: ${why}`, { kind: 'input', hint })
}

function phaseOf(input: ContractInput): Phase | null {
  const said = input.spec?.phase
  if (said !== undefined && input.phase !== null && said !== input.phase) {
    throw contradiction(
      'phase',
      `the spec says ${said}, the call says ${input.phase}`,
      'Give the phase in one place.',
    )
  }
  return said ?? input.phase
}

/** What a legacy string asks for; a misspelt one is refused, never taken for less strict than meant. */
function legacyBoundary(text: string | null): BoundaryLevel | undefined {
  if (text === null || text === '') return undefined
  const level = legacyBoundaries[text]
  if (level !== undefined) return level
  throw new OrangeryError('spec.legacy_sandbox', `--sandbox ${text}: not a value it takes`, {
    kind: 'input',
    hint: 'It takes read-only, workspace-write or full.',
  })
}

const namedSoftware = new Set(['macos', 'linux', 'freebsd'])

/** The level the other choices of a spec need, with the words for it. */
function impliedLevel(spec: SandboxSpec | null): { minimum: SandboxLevel; why: string } | null {
  if (spec?.software === 'freebsd') return { minimum: 3, why: 'software freebsd needs a vm' }
  if (spec?.software !== undefined && !namedSoftware.has(spec.software)) {
    return { minimum: 2, why: `software ${spec.software} is an image and needs a container or a vm` }
  }
  if (spec?.platform === 'container')
    return { minimum: 2, why: 'platform container needs a container or a vm' }
  return null
}

function levelOf(input: ContractInput): SandboxLevel {
  const { spec, card, config, role } = input
  const rules = config.sandboxSelection.filter(
    (rule) => (rule.agent === '*' || rule.agent === card.id) && (rule.role === '*' || rule.role === role),
  )
  const minimum = Math.max(0, ...rules.map((rule) => rule.minimum ?? 0)) as SandboxLevel
  const implied = impliedLevel(spec)
  if (spec?.isolation !== undefined) {
    const asked = levelOfIsolation(spec.isolation)
    if (implied !== null && asked < implied.minimum) {
      throw contradiction(`isolation ${spec.isolation}`, implied.why, 'Leave the isolation out, or raise it.')
    }
    if (asked < minimum) {
      throw new OrangeryError(
        'policy.level_too_low',
        `level ${asked} (${levelNames[asked]}): the policy asks for at least ${minimum} (${levelNames[minimum]}) for ${card.id}`,
        {
          kind: 'refused',
          hint: `Ask for --isolation ${isolationOfLevel(minimum)}, or change sandboxSelection.`,
        },
      )
    }
    return asked
  }
  const chosen = rules.find((rule) => rule.level !== undefined)?.level
  const usual = config.sandboxEnabled ? (chosen ?? card.sandboxLevel) : 0
  return Math.max(usual, minimum, implied?.minimum ?? 0) as SandboxLevel
}

function checkHosts(what: string, hosts: readonly string[]): void {
  const wrong = hosts.find((host) => parseHostPattern(host) === undefined)
  if (wrong === undefined) return
  throw new OrangeryError('spec.host', `${what}: ${JSON.stringify(wrong)}: ${notAHost(wrong)}`, {
    kind: 'input',
  })
}

function outputsOf(input: ContractInput): ContractOutputs {
  const given = input.spec?.outputs
  const { allow = [], deny = [], pins = {} } = given ?? {}
  checkHosts('outputs.allow', allow)
  checkHosts('outputs.deny', deny)
  const hostPins = Object.entries(pins).filter(([host]) => !host.includes('/'))
  checkHosts(
    'outputs.pins',
    hostPins.map(([host]) => host),
  )
  // Networks, as the broker reads them, are its own to check.
  const wrong = hostPins.find(
    ([, address]) => !address.includes('/') && parsePinAddress(address) === undefined,
  )
  if (wrong !== undefined) {
    throw new OrangeryError(
      'spec.pin',
      `outputs.pins: ${wrong[0]} → ${wrong[1]}: not an address and a port`,
      {
        kind: 'input',
        hint: 'Write {"db.test:5432": "127.0.0.1:5432"}: a numeric address and a port.',
      },
    )
  }
  const names = allow.length > 0 || Object.keys(pins).length > 0
  const mode = given?.mode ?? (names ? 'restricted' : 'none')
  if (mode === 'none' && names) {
    throw contradiction(
      'outputs',
      'the mode is none, yet hosts are named',
      'Say "restricted", or name no hosts.',
    )
  }
  return {
    mode,
    allow: unique([...allow, ...hostPins.map(([host]) => host)]),
    deny,
    pins,
    always: given?.mode === 'none' ? [] : input.card.sandboxRequirements.hosts,
    readOnly: given?.read_only ?? false,
    declared: given !== undefined,
  }
}

/**
 * A spec that names hosts and no boundary means them to be reached: an access mode speaks of files only. A boundary
 * that is spelled out below `network` is a gate: the hosts wait behind it until someone widens it.
 */
function boundaryOf(input: ContractInput, phase: Phase | null, outputs: ContractOutputs) {
  const asked = requestedBoundary(input.spec) ?? legacyBoundary(input.legacySandbox)
  if (input.spec?.boundary !== undefined) return { asked, level: input.spec.boundary, outputs }
  // Not as the maximum has it: one that cuts a build down to readonly makes no read-only phase of it.
  const files = asked ?? usualBoundary(phase, input.config)
  const reaches = outputs.declared && outputs.mode !== 'none'
  // A word about files opens no network; what is not said of outputs is none.
  if (asked === 'full' && !reaches && levelOf(input) > 0)
    return { asked, level: files, outputs: { ...outputs, declared: true, cut: true } }
  if (!reaches) return { asked, level: files, outputs }
  if (files !== 'readonly') return { asked, level: reachingOutputs(files, outputs), outputs }
  // The hosts are reached and the files stay as they are.
  return {
    asked,
    level: files,
    outputs: {
      ...outputs,
      always: unique([...outputs.always, ...outputs.allow]),
      ofCard: outputs.always,
      ...(outputs.mode === 'open' ? { openAlways: true } : {}),
      ...(Object.keys(outputs.pins).length > 0 ? { pinsAlways: true } : {}),
    },
  }
}

/** A mode for a folder that is no root would be a promise about nothing. Undefined where every root is `rw`. */
function rootModesOf({ spec, card }: ContractInput, roots: readonly string[]): RootModes | undefined {
  const named = Object.entries(spec?.root_modes ?? {}).map(([path, mode]) => [resolve(path), mode] as const)
  const known = new Set(roots.map((root) => resolve(root)))
  const stray = named.find(([path]) => !known.has(path))
  if (stray !== undefined) {
    throw new OrangeryError('spec.root_mode', `root_modes: ${stray[0]} is none of the roots`, {
      kind: 'input',
      hint: `Roots are ${roots.join(', ')}.`,
    })
  }
  const modes = Object.fromEntries(named)
  const usual = card.sandboxRequirements.rootModes ?? {}
  const given = roots
    .map((root) => resolve(root))
    .flatMap((root) => {
      const mode = modes[root] ?? usual[root] ?? usual[basename(root)] ?? usual['*'] ?? 'rw'
      return mode === 'rw' ? [] : [[root, mode] as const]
    })
  if (given.length === 0) return undefined
  if (given.length === known.size && given.every(([, mode]) => mode === 'hidden')) {
    throw contradiction('root_modes', 'every root is hidden', 'Leave at least one for the agent to see.')
  }
  const dir = spec?.working_dir
  const covering = given.find(([root, mode]) => mode === 'hidden' && dir !== undefined && isInside(dir, root))
  if (covering !== undefined) {
    throw contradiction('working_dir', `it lies in ${covering[0]}, which is hidden`, 'Start it elsewhere.')
  }
  return Object.fromEntries(given)
}

/** At level 0 nothing stands around the agent: a promise that nothing keeps is bad input. */
function checkEnforceable({ level, strategy, boundary, outputs }: Contract): void {
  if (level !== 0) return
  if (strategy === 'none' && boundary === 'readonly') {
    throw contradiction(
      'boundary readonly',
      'at level 0 with changeset none nothing keeps the agent from writing',
      'Leave the changeset out, or run at level 1.',
    )
  }
  if (outputs.declared && outputs.mode !== 'open') {
    throw contradiction(
      `outputs ${outputs.mode}`,
      'at level 0 the agent has the network of the host',
      'Run at level 1, or say --outputs open.',
    )
  }
}

/**
 * Works out the one contract a dispatch runs under from what was asked, the agent's card, the phase, the
 * config and the parent. Pure. What contradicts itself is bad input; what the policy or the parent forbids is
 * refused; what nobody said is set to the narrowest that still works.
 */
export function resolveContract(input: ContractInput): Contract {
  const { spec, config, card, parent } = input
  const phase = phaseOf(input)
  const { asked, level, outputs } = boundaryOf(input, phase, outputsOf(input))
  const ceiling = config.sandboxMaximumBoundary
  if (asked !== undefined && boundaryRank(asked) > boundaryRank(ceiling)) {
    throw new OrangeryError(
      'policy.boundary_too_wide',
      `boundary ${asked}: the policy allows ${ceiling} at most`,
      {
        kind: 'refused',
        hint: 'Ask for less, or change sandboxMaximumBoundary in your config.',
      },
    )
  }
  const boundary = narrowerBoundary(level, ceiling)
  const capabilities = capabilitiesOf(boundary, config)
  const roots = unique((spec?.roots ?? input.roots).map((root) => resolve(root)))
  const rootModes = rootModesOf(input, roots)
  const first = roots.find((root) => rootModes?.[resolve(root)] !== 'hidden')
  const phaseFiles = phase === null ? [] : config.sandboxPhaseFiles[phase]
  const placed = (paths: readonly string[]) =>
    first === undefined ? [] : unique(paths.map((path) => resolve(first, path)))
  const writableAt = Object.fromEntries(
    boundaryLevels.flatMap((each) => {
      const paths = each === 'readonly' ? null : writableOf(config.sandboxLevels, each)
      return paths === null ? [] : [[each, placed([...phaseFiles, ...paths])]]
    }),
  )
  const contract: Contract = {
    level: levelOf(input),
    strategy: spec?.changeset ?? 'overlay',
    platform: spec?.platform ?? null,
    outputs,
    software: spec?.software ?? null,
    boundary,
    ...(asked === undefined && phase !== null ? { byPhase: true } : {}),
    phase,
    roots,
    ...(rootModes === undefined ? {} : { rootModes }),
    workingDir: spec?.working_dir ?? null,
    hide: unique([...(spec?.hide ?? []), ...capabilities.files.hide]),
    writableFiles: placed([...phaseFiles, ...(writableOf(config.sandboxLevels, 'readonly') ?? [])]),
    ...(Object.keys(writableAt).length === 0 ? {} : { writableAt }),
    limits: spec?.limits ?? {},
    onLimit: spec?.on_limit ?? 'record',
    toolsAllowed: spec?.tools_allowed ?? null,
    toolsDenied: unique(spec?.tools_denied ?? []),
    maxTurns: spec?.max_turns ?? null,
    maxCommands: spec?.max_commands ?? null,
  }
  checkEnforceable(contract)
  return parent === null ? contract : underParent(contract, parent, spec, card, asked)
}
