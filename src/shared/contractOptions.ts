import { boundaryLevels } from './boundary.ts'
import { OrangeryError } from './errors.ts'
import { formatHostPattern, parseHostPattern, parsePinAddress, presetNames, presetOf } from './hosts.ts'
import { isolationOfLevel, isolations, parseLevel, type Isolation } from './level.ts'
import {
  outputModes,
  platforms,
  rootModes,
  workspaceStrategies,
  type Limits,
  type Outputs,
  type RootMode,
  type SandboxSpec,
} from './spec.ts'

type NumberLike = string | number

/** The contract options of `run` and `dispatch spawn`, as the command line or a form hands them over. */
export type ContractOptions = {
  readonly level?: string | number | undefined
  readonly changeset?: string | undefined
  readonly isolation?: string | undefined
  readonly platform?: string | undefined
  readonly outputs?: string | undefined
  readonly allowHost?: readonly string[] | undefined
  readonly boundary?: string | undefined
  /** `FOLDER=MODE`, the folder's path absolute. */
  readonly rootMode?: readonly string[] | undefined
  readonly software?: string | undefined
  readonly memoryMb?: NumberLike | undefined
  readonly cpus?: NumberLike | undefined
  readonly pids?: NumberLike | undefined
  readonly diskMb?: NumberLike | undefined
  readonly timeoutS?: NumberLike | undefined
}

function badValue(option: string, given: unknown, allowed: string): OrangeryError {
  return new OrangeryError('usage.option_value', `${option} ${String(given)}: not a value it takes`, {
    kind: 'usage',
    hint: `${option} takes ${allowed}.`,
  })
}

function choice<T extends string>(option: string, given: string | undefined, choices: readonly T[]) {
  if (given === undefined) return undefined
  if ((choices as readonly string[]).includes(given)) return given as T
  throw badValue(option, given, choices.join(', '))
}

function amount(option: string, given: NumberLike | undefined, whole: boolean): number | undefined {
  if (given === undefined) return undefined
  const value = typeof given === 'number' ? given : /^\d+(\.\d+)?$/.test(given) ? Number(given) : Number.NaN
  if (Number.isFinite(value) && value > 0 && (!whole || Number.isInteger(value))) return value
  throw badValue(option, given, whole ? 'a whole number above 0' : 'a number above 0')
}

function isolationOf(options: ContractOptions): Isolation | undefined {
  const isolation = choice('--isolation', options.isolation, isolations)
  if (options.level === undefined) return isolation
  const level = parseLevel(String(options.level))
  if (level === undefined) {
    throw badValue('--level', options.level, '0..3, bare-cli, os-sandboxed, container or vm')
  }
  const fromLevel = isolationOfLevel(level)
  if (isolation !== undefined && isolation !== fromLevel) {
    throw new OrangeryError(
      'spec.contradiction',
      `--level ${options.level} and --isolation ${isolation}: they say different things`,
      { kind: 'input', hint: 'Give one of them; they are the same setting in two vocabularies.' },
    )
  }
  return fromLevel
}

function outputsOf(options: ContractOptions): Outputs | undefined {
  const mode = choice('--outputs', options.outputs, outputModes)
  const given = options.allowHost ?? []
  if (given.length === 0) return mode === undefined ? undefined : { mode }
  if (mode === 'none') {
    throw new OrangeryError(
      'spec.contradiction',
      '--outputs none and --allow-host: they say different things',
      {
        kind: 'input',
        hint: 'Leave --outputs out, or say --outputs restricted.',
      },
    )
  }
  const allow: string[] = []
  const pins: Record<string, string> = {}
  for (const text of given) {
    if (presetOf(text) !== null) {
      if (!allow.includes(text)) allow.push(text)
      continue
    }
    if (text.startsWith('@')) {
      throw badValue('--allow-host', text, presetNames.map((name) => `@${name}`).join(', '))
    }
    const equals = text.indexOf('=')
    const pattern = parseHostPattern(equals < 0 ? text : text.slice(0, equals))
    const shape = 'HOST[:PORT][=ADDR:PORT]'
    if (pattern === undefined)
      throw badValue('--allow-host', text, `${shape}; every public host is --outputs open`)
    const host = formatHostPattern(pattern)
    if (!allow.includes(host)) allow.push(host)
    if (equals < 0) continue
    const address = text.slice(equals + 1)
    if (host.startsWith('*') || parsePinAddress(address) === undefined) {
      throw badValue(
        '--allow-host',
        text,
        `${shape}, where = pins one exact name to a numeric address and port`,
      )
    }
    pins[host] = address
  }
  return { mode: mode ?? 'restricted', allow, ...(Object.keys(pins).length === 0 ? {} : { pins }) }
}

function rootModesOf(given: readonly string[] = []): Record<string, RootMode> | undefined {
  const modes: Record<string, RootMode> = {}
  for (const text of given) {
    const equals = text.lastIndexOf('=')
    const mode = rootModes.find((each) => each === text.slice(equals + 1))
    if (equals < 1 || mode === undefined) throw badValue('--root-mode', text, 'FOLDER=rw|ro|hidden')
    const folder = text.slice(0, equals)
    if (Object.hasOwn(modes, folder) && modes[folder] !== mode) {
      throw badValue('--root-mode', text, 'one mode for a folder')
    }
    modes[folder] = mode
  }
  return given.length === 0 ? undefined : modes
}

function withoutUndefined<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }
}

/** What the contract options amount to as a spec; null when none was given. */
export function contractOfOptions(options: ContractOptions): SandboxSpec | null {
  const limits: Limits = withoutUndefined({
    cpus: amount('--cpus', options.cpus, false),
    memory_mb: amount('--memory-mb', options.memoryMb, false),
    pids: amount('--pids', options.pids, true),
    disk_mb: amount('--disk-mb', options.diskMb, false),
    timeout_s: amount('--timeout-s', options.timeoutS, false),
  })
  if (options.software === '')
    throw badValue('--software', '""', 'macos, linux, freebsd or an image reference')
  const spec: SandboxSpec = withoutUndefined({
    changeset: choice('--changeset', options.changeset, workspaceStrategies),
    platform: choice('--platform', options.platform, platforms),
    isolation: isolationOf(options),
    outputs: outputsOf(options),
    software: options.software,
    boundary: choice('--boundary', options.boundary, boundaryLevels),
    root_modes: rootModesOf(options.rootMode),
    limits: Object.keys(limits).length === 0 ? undefined : limits,
  })
  return Object.keys(spec).length === 0 ? null : spec
}
