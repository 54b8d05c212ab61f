import {
  accessModeOfBoundary,
  accessModes,
  boundaryLevels,
  legacyBoundaries,
  type AccessMode,
} from './boundary.ts'
import { levelNames, parseLevel } from './level.ts'

/** One line of "requested | effective". Cells are for people; null is "not said". */
export type ComparedField = {
  readonly field: string
  readonly requested: string | null
  readonly effective: string | null
  /** What happened is not what was asked. */
  readonly differs: boolean
  /** What happened is more than was asked for: the sentence that says so. */
  readonly violation: string | null
}

export type ComparedDispatch = {
  /** Legacy word, superseded by the spec's `access_mode`. */
  readonly sandbox: string | null
  readonly sandbox_spec: unknown
  readonly sandbox_effective: unknown
}

type Fields = Readonly<Record<string, unknown>>

// Stored JSON of any age and any program: nothing about its shape is taken for granted.
const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
const otherThanFields = (value: unknown): unknown =>
  typeof value === 'object' && !Array.isArray(value) ? null : JSON.stringify(value)
// Never by its own toString, which stored JSON may name.
const wordOf = (value: unknown): string =>
  typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
const namesOf = (value: unknown): readonly string[] | null =>
  Array.isArray(value) ? value.map(wordOf) : null
const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)
const numberOf = (value: unknown): number | null => (typeof value === 'number' ? value : null)

function show(value: unknown): string | null {
  if (value === undefined || value === null) return null
  if (typeof value === 'string') return value
  if (Array.isArray(value) && value.every((each) => typeof each === 'string')) {
    return value.length === 0 ? '(none)' : value.join(', ')
  }
  return JSON.stringify(value)
}

const same = (field: string, requested: unknown, effective: unknown = null): ComparedField => ({
  field,
  requested: show(requested),
  effective: show(effective),
  differs: false,
  violation: null,
})

/**
 * What was requested beside what really happened, line by line, for every host of the contract. Lines that
 * neither side says anything about are left out; violations come last and are never left out.
 */
export function compareSandbox(dispatch: ComparedDispatch): ComparedField[] {
  const spec = fieldsOf(dispatch.sandbox_spec)
  const effective = fieldsOf(dispatch.sandbox_effective)
  // What a parent or a policy made of the request; records of earlier releases do not say.
  const held = fieldsOf(effective['ceiling'])
  const ended = Object.keys(effective).length > 0
  const fields = [
    // What other programs left there need not be an object; it is no less on record.
    same('sandbox_spec', otherThanFields(dispatch.sandbox_spec)),
    same('sandbox_effective', null, otherThanFields(dispatch.sandbox_effective)),
    asHeld(accessMode(spec, effective, dispatch.sandbox), effective),
    level(spec, effective),
    asHeld(boundary(spec, effective), effective),
    workspace(spec, effective),
    same('driver', null, effective['driver']),
    toolsAllowed(spec, effective, held),
    toolsDenied(spec, effective, held),
    counted('max_turns', 'turns', spec, held, effective['turns_used']),
    counted('max_commands', 'commands', spec, held, effective['commands_used']),
    outputs(spec, effective, ended),
    ...limits(spec, effective, held),
    same('resources', null, resources(effective)),
    rootModes(spec['root_modes'], effective['root_modes']),
    ...plainFields.map((name) => plain(name, spec[name], held[name])),
    ...unknownFields(spec).map((name) => same(name, spec[name])),
  ].filter((field) => field.requested !== null || field.effective !== null)
  return [...fields, ...failedProbes(effective), ...violations(effective)]
}

/** Fields that a parent or a policy may have added to, and that nothing else is to be said about. */
const plainFields = ['platform', 'software', 'phase', 'working_dir', 'roots', 'hide', 'on_limit'] as const

const compared = new Set<string>([
  ...plainFields,
  'access_mode',
  'level',
  'isolation',
  'boundary',
  'changeset',
  'tools_allowed',
  'tools_denied',
  'max_turns',
  'max_commands',
  'outputs',
  'limits',
  'root_modes',
])
const unknownFields = (spec: Fields): string[] => Object.keys(spec).filter((name) => !compared.has(name))

function accessMode(spec: Fields, effective: Fields, legacy: string | null): ComparedField {
  const asked =
    textOf(spec['access_mode']) ?? modeOfBoundary(textOf(spec['boundary'])) ?? modeOfLegacy(legacy)
  const actual = textOf(effective['access_mode'])
  const differs = asked !== null && actual !== null && asked !== actual
  const widened = differs && rankOf(actual) > rankOf(asked)
  const approved = listOf(effective['boundary_history'])
    .slice(1)
    .map(fieldsOf)
    .some(({ from, to }) => from !== to)
  return {
    field: 'access_mode',
    requested: asked,
    effective: actual,
    differs,
    // Wider than asked is in order where the history says who widened it.
    violation: widened && !approved ? `asked for ${asked}, had ${actual}` : null,
  }
}

const rankOf = (mode: string): number => accessModes.indexOf(mode as AccessMode)

function modeOfBoundary(level: string | null): AccessMode | null {
  const known = boundaryLevels.find((each) => each === level)
  return known === undefined ? null : accessModeOfBoundary[known]
}

/** An empty word says nothing; one that nobody knows is shown as it is. */
function modeOfLegacy(word: string | null): string | null {
  return modeOfBoundary(legacyBoundaries[word ?? ''] ?? null) ?? (word === '' ? null : word)
}

/** A spec may hold anything, an object whose `toString` is a number included. */
const levelIn = (value: unknown) =>
  typeof value === 'string' || typeof value === 'number' ? parseLevel(String(value)) : undefined

function level(spec: Fields, effective: Fields): ComparedField {
  const asked = levelIn(spec['level'] ?? spec['isolation'])
  const actual = levelIn(effective['level'])
  const name = (value: typeof asked) => (value === undefined ? null : `${value} ${levelNames[value]}`)
  const differs = asked !== undefined && actual !== undefined && asked !== actual
  return {
    field: 'level',
    requested: name(asked),
    effective: name(actual),
    differs,
    violation: differs && actual < asked ? `ran at ${name(actual)} instead of ${name(asked)}` : null,
  }
}

/** Without a sandbox nothing holds it to what is on record. */
const asHeld = (field: ComparedField, { level }: Fields): ComparedField =>
  level !== 0 || field.effective === null
    ? field
    : { ...field, effective: `${field.effective}, not enforced` }

function boundary(spec: Fields, effective: Fields): ComparedField {
  const asked = textOf(spec['boundary'])
  const steps = listOf(effective['boundary_history']).map((step) => textOf(fieldsOf(step)['to']))
  const reached = steps.filter((step) => step !== null)
  return {
    field: 'boundary',
    requested: asked,
    effective: reached.length === 0 ? null : reached.join(' → '),
    differs: asked !== null && reached.some((step) => step !== asked),
    violation: null,
  }
}

function plain(field: string, asked: unknown, held: unknown): ComparedField {
  const compared = same(field, asked, held)
  const { requested, effective } = compared
  return { ...compared, differs: requested !== null && effective !== null && requested !== effective }
}

/** Folders are asked for in any spelling, and held by their whole path. */
function rootModes(asked: unknown, held: unknown): ComparedField {
  const wishes = Object.entries(fieldsOf(asked)).map(
    ([root, mode]) => [root.replace(/^(?:\.\/)+|\/+$/g, ''), mode] as const,
  )
  const isAsked = ([root, mode]: readonly [string, unknown]) =>
    wishes.some(([wish, wished]) => wished === mode && (root === wish || root.endsWith(`/${wish}`)))
  const modes = Object.entries(fieldsOf(held))
  const isSaid = wishes.length > 0 && modes.length > 0
  return {
    ...same('root_modes', asked, held),
    differs: isSaid && (modes.length !== wishes.length || !modes.every(isAsked)),
  }
}

/** Drivers that carry a strategy, by the words the effective record uses. */
const strategyOfDriver: ReadonlyMap<string, string> = new Map([
  ['kernel-overlay', 'overlay'],
  ['fuse-overlayfs', 'overlay'],
  ['reflink-copy', 'clone'],
  ['plain-copy', 'clone'],
  ['direct', 'none'],
])

function workspace(spec: Fields, effective: Fields): ComparedField {
  const asked = textOf(spec['changeset'])
  const actual = textOf(effective['workspace'])
  const driver = textOf(effective['workspace_driver'])
  const word = actual?.split(/[\s(]/, 1)[0] ?? ''
  const strategy = strategyOfDriver.get(word) ?? word
  // A worktree is carried by an overlay of it.
  const fits = asked === strategy || (asked === 'worktree' && strategy === 'overlay')
  const differs = asked !== null && actual !== null && !fits
  return {
    field: 'changeset',
    requested: asked,
    effective: actual === null || driver === null || driver === actual ? actual : `${actual} (${driver})`,
    differs,
    violation: differs && strategy === 'none' ? 'the real files were written directly' : null,
  }
}

const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)
const joined = (...parts: readonly (string | null)[]): string | null =>
  parts.filter((part) => part !== null).join('; ') || null

function toolsAllowed(spec: Fields, effective: Fields, held: Fields): ComparedField {
  const asked = namesOf(spec['tools_allowed'])
  const allowed = namesOf(held['tools_allowed']) ?? asked
  const used = namesOf(effective['tools_used'])
  const others = allowed === null ? [] : (used ?? []).filter((tool) => !allowed.includes(tool))
  const isCut = !isSame(asked, allowed)
  return {
    field: 'tools_allowed',
    requested: show(asked),
    effective: joined(
      used === null ? null : `used: ${show(used)}`,
      isCut ? `allowed: ${show(allowed)}` : null,
    ),
    differs: others.length > 0 || (asked !== null && isCut),
    violation: others.length > 0 ? `used though not allowed: ${others.join(', ')}` : null,
  }
}

function toolsDenied(spec: Fields, effective: Fields, held: Fields): ComparedField {
  const asked = namesOf(spec['tools_denied'])
  const denied = namesOf(held['tools_denied']) ?? asked
  const used = (namesOf(effective['tools_used']) ?? []).filter((tool) => denied?.includes(tool))
  const isCut = !isSame(asked, denied)
  return {
    field: 'tools_denied',
    requested: show(asked),
    effective: joined(
      used.length > 0 ? `used: ${used.join(', ')}` : null,
      isCut ? `denied: ${show(denied)}` : null,
    ),
    differs: used.length > 0 || (asked !== null && isCut),
    violation: used.length > 0 ? `used though denied: ${used.join(', ')}` : null,
  }
}

function counted(
  field: 'max_turns' | 'max_commands',
  unit: string,
  spec: Fields,
  held: Fields,
  used: unknown,
): ComparedField {
  const asked = numberOf(spec[field])
  const limit = numberOf(held[field]) ?? asked
  const count = numberOf(used)
  const beyond = limit !== null && count !== null && count > limit
  const isCut = limit !== asked
  return {
    field,
    // A number that is none to us is still what was asked.
    requested: asked === null ? show(spec[field]) : `at most ${asked}`,
    effective: joined(count === null ? null : `${count} used`, isCut ? `at most ${limit}` : null),
    differs: beyond || (asked !== null && isCut),
    violation: beyond ? `${count} ${unit} where ${limit} were allowed` : null,
  }
}

function outputs(spec: Fields, effective: Fields, ended: boolean): ComparedField {
  const asked = fieldsOf(spec['outputs'])
  const hosts = [...listOf(asked['allow']), ...Object.keys(fieldsOf(asked['pins']))].map(String)
  const mode = textOf(asked['mode']) ?? (hosts.length > 0 ? 'restricted' : null)
  const network = fieldsOf(effective['network'])
  const allowed = listOf(network['allowed'])
  const isSilent = (entry: unknown) => {
    const { connections, unreachable } = fieldsOf(entry)
    return connections === 0 && typeof unreachable === 'number' && unreachable > 0
  }
  const reached = allowed.filter((entry) => !isSilent(entry)).map(hostAndCount)
  // Let out, and nobody was there: that is no host it reached.
  const silent = allowed.filter(isSilent).map((entry) => wordOf(fieldsOf(entry)['host']))
  const refused = listOf(network['denied']).map(hostAndCount)
  const parts = [
    ...(reached.length > 0 ? [`reached ${reached.join(', ')}`] : []),
    ...(silent.length > 0 ? [`no answer from ${silent.join(', ')}`] : []),
    ...(refused.length > 0 ? [`refused ${refused.join(', ')}`] : []),
  ]
  return {
    field: 'outputs',
    requested: mode === null ? null : [mode, hosts.join(', ')].filter((part) => part !== '').join(': '),
    effective: parts.length > 0 ? parts.join('; ') : ended && mode !== null ? 'nothing reached' : null,
    differs: refused.length > 0,
    violation:
      mode === 'none' && reached.length > 0 && !widened(effective) ? 'reached hosts without outputs' : null,
  }
}

const widened = (effective: Fields): boolean =>
  listOf(effective['boundary_history']).some((step) =>
    ['network', 'full'].includes(wordOf(fieldsOf(step)['to'])),
  )

function hostAndCount(entry: unknown): string {
  const { host, connections } = fieldsOf(entry)
  return typeof connections === 'number' ? `${wordOf(host)} (${connections})` : wordOf(host)
}

function limits(spec: Fields, effective: Fields, ceiling: Fields): ComparedField[] {
  const asked = fieldsOf(spec['limits'])
  const held = fieldsOf(ceiling['limits'])
  const used = fieldsOf(effective['resources'])
  const wall = numberOf(used['wall_ms'])
  const actual: Readonly<Record<string, { readonly value: number | null; readonly unit: string }>> = {
    timeout_s: { value: wall === null ? null : wall / 1000, unit: 's' },
    memory_mb: { value: numberOf(used['max_rss_mb']), unit: 'MB' },
    disk_mb: { value: numberOf(used['disk_mb']), unit: 'MB' },
  }
  return [...new Set([...Object.keys(asked), ...Object.keys(held)])].map((name) => {
    const limit = held[name] ?? asked[name]
    const { value = null, unit = '' } = actual[name] ?? {}
    const withUnit = (count: number) => `${count} ${unit}`.trimEnd()
    const beyond = typeof limit === 'number' && value !== null && value > limit
    const isCut = typeof limit === 'number' && limit !== asked[name]
    return {
      field: `limits.${name}`,
      requested: typeof asked[name] === 'number' ? `at most ${withUnit(asked[name])}` : show(asked[name]),
      effective: joined(
        value === null ? null : withUnit(Math.round(value * 10) / 10),
        isCut ? `at most ${withUnit(limit)}` : null,
      ),
      differs: beyond || (asked[name] !== undefined && isCut),
      // Limits are hit on purpose and end a run a little late; a breach the driver is sure of is in `violations`.
      violation: null,
    }
  })
}

function resources(effective: Fields): string | null {
  const used = fieldsOf(effective['resources'])
  const figures = [
    ['wall_ms', 'ms', ''],
    ['cpu_ms', 'ms', 'CPU'],
    ['max_rss_mb', 'MB', 'memory'],
    ['disk_mb', 'MB', 'written'],
  ].flatMap(([name = '', unit = '', what = '']) => {
    // Nobody measured it: that is not the same as none.
    if (used[name] === null) return [`${what} unknown`]
    const value = numberOf(used[name])
    // Too little to be counted is not worth a word; how long it took is.
    if (value === 0 && name !== 'wall_ms') return []
    return value === null ? [] : [`${Math.round(value * 10) / 10} ${unit} ${what}`.trimEnd()]
  })
  return figures.length === 0 ? null : figures.join(', ')
}

/** Declared = actual, where it did not hold. */
function failedProbes(effective: Fields): ComparedField[] {
  return listOf(fieldsOf(effective['declared_equals_actual'])['checks'])
    .map(fieldsOf)
    .filter((check) => check['ok'] === false)
    .map((check) => ({
      field: `declared: ${wordOf(check['name'])}`,
      requested: show(check['declared']),
      effective: show(check['actual']),
      differs: true,
      violation: `${wordOf(check['name'])} is not as declared`,
    }))
}

function violations(effective: Fields): ComparedField[] {
  return listOf(effective['violations'])
    .map(fieldsOf)
    .map((violation) => {
      const detail = wordOf(violation['detail'] ?? '')
      const doubt = violation['certain'] === false ? ' (likely)' : ''
      return {
        field: `violation: ${wordOf(violation['kind'] ?? 'unknown')}`,
        requested: null,
        effective: detail + doubt,
        differs: true,
        violation: (detail === '' ? wordOf(violation['kind'] ?? 'unknown') : detail) + doubt,
      }
    })
}
