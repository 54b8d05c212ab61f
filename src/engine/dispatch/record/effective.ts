import {
  accessModeOfBoundary,
  boundaryRank,
  type BoundaryChange,
  type BoundaryLevel,
} from '../../../shared/boundary.ts'
import type {
  Ceiling,
  DeclaredEqualsActual,
  LimitsBy,
  NetworkUse,
  SandboxEffective,
  Violation,
} from '../../../shared/effective.ts'
import { turnBegun, type EventBody } from '../../../shared/events.ts'
import type { RootModes } from '../../../shared/spec.ts'
import type { Contract } from '../../base/contract.ts'
import { run } from '../../base/process.ts'
import type { LimitName, SandboxEnd } from '../../base/sandbox.ts'
import { unnamedHosts } from './turnedAway.ts'

/** Names are the agent's own: more than these would only make the record unreadable. */
const mostTools = 500

const limitKinds: ReadonlySet<string> = new Set<LimitName>(['memory', 'pids', 'disk', 'timeout'])

/** Undefined where there was no bound. */
function ceilingOf({
  toolsAllowed,
  toolsDenied,
  maxTurns,
  maxCommands,
  onLimit,
  hide,
  limits,
}: Contract): Ceiling | undefined {
  const ceiling: Ceiling = {
    ...(toolsAllowed === null ? {} : { tools_allowed: [...toolsAllowed] }),
    ...(toolsDenied.length === 0 ? {} : { tools_denied: [...toolsDenied] }),
    ...(maxTurns === null ? {} : { max_turns: maxTurns }),
    ...(maxCommands === null ? {} : { max_commands: maxCommands }),
    ...(onLimit === 'record' ? {} : { on_limit: onLimit }),
    ...(hide.length === 0 ? {} : { hide: [...hide] }),
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
  }
  return Object.keys(ceiling).length === 0 ? undefined : ceiling
}

/** What a dispatch begins under. */
type Terms = Pick<Contract, 'level' | 'boundary'> & {
  readonly strategy: string
  readonly ceiling?: Ceiling | undefined
  readonly root_modes?: RootModes | undefined
}

export function termsOf(contract: Contract): Terms {
  const { level, boundary, strategy, rootModes } = contract
  const ceiling = ceilingOf(contract)
  return {
    level,
    boundary,
    strategy,
    ...(ceiling === undefined ? {} : { ceiling }),
    ...(rootModes === undefined ? {} : { root_modes: { ...rootModes } }),
  }
}

/** Null where the log is of a release that did not write them down. */
export function termsInLog({
  level,
  boundary,
  strategy,
  ceiling,
  root_modes,
}: Extract<EventBody, { type: 'DispatchStarting' }>): Terms | null {
  if (boundary === undefined || strategy === undefined) return null
  return { level, boundary, strategy, ceiling, root_modes }
}

const tenths = (megabytes: number): number => Math.round(megabytes * 10) / 10

/** Gathers what really happened from the events of one dispatch, so that the log and the record agree. */
export class Observations {
  driver = 'none'
  diskMb: number | null = null
  /** What the broker counted; null where it is not there to be asked, and the log must say. */
  network: NetworkUse | null = null
  readonly #terms: Terms
  readonly #decided = new Map<string, { allowed: number; denied: number; why: string }>()
  readonly #carried = new Map<string, number>()
  #firstAt: string | null = null
  #lastAt: string | null = null
  readonly #violations: Violation[] = []
  readonly #history: BoundaryChange[]
  readonly #tools = new Set<string>()
  #commands = 0
  #turns = 0
  #turn: string | null = null
  #workspaceDriver: string | undefined
  #limitsBy: LimitsBy | undefined
  #probe: DeclaredEqualsActual = { ok: false, checks: [] }
  #resources: SandboxEnd['resources'] | null = null

  constructor(terms: Terms) {
    this.#terms = terms
    const at = new Date().toISOString()
    this.#history = [{ at, from: null, to: terms.boundary, by: 'spawn', why: 'as requested' }]
  }

  /** `at` is when it happened: now, or what the log says. */
  observe(event: EventBody, at: string = new Date().toISOString()): void {
    if (this.#firstAt === null) {
      this.#firstAt = at
      this.#history.splice(0, 1, { ...(this.#history[0] as BoundaryChange), at })
    }
    this.#lastAt = at
    const begun = turnBegun(event, this.#turn)
    if (begun !== null) {
      this.#turn = begun
      this.#turns++
    }
    switch (event.type) {
      case 'WorkspaceReady':
        this.#workspaceDriver = event.driver
        break
      case 'SandboxReady':
        this.driver = event.driver
        this.#limitsBy = event.limits_by
        break
      case 'SelfProbe':
        this.#probe = event.result
        if (!event.result.ok) this.#violate('declared_not_actual', 'the sandbox is not what was declared', at)
        break
      case 'Violated':
        this.#note(event.violation)
        break
      case 'BoundaryEscalated':
        this.#history.push({
          at,
          from: event.from,
          to: event.to,
          by: event.by,
          why: event.why,
        })
        break
      case 'BoundaryKept':
        this.#history.push({
          at,
          from: event.level,
          to: event.level,
          by: event.by,
          why: `${event.wished} did not take: ${event.why}`,
        })
        break
      case 'EgressDecided':
        this.#count(event)
        break
      case 'EgressCarried':
        for (const { host, bytes } of event.hosts) this.#carried.set(host, bytes)
        break
      case 'ToolCall':
        if (this.#tools.size < mostTools) this.#tools.add(event.tool.slice(0, 200))
        this.#commands++
        break
      default:
    }
  }

  ended(end: SandboxEnd): void {
    this.#resources = end.resources
  }

  /** A limit that was reached is one end, whoever tells of it: what a program printed gives way to what is certain. */
  #note(violation: Violation): void {
    const isSame = ({ kind, certain }: Violation) =>
      kind === violation.kind && !(certain && violation.certain)
    const told = limitKinds.has(violation.kind) ? this.#violations.findIndex(isSame) : -1
    if (told === -1) this.#violations.push(violation)
    else if (violation.certain) this.#violations.splice(told, 1, violation)
  }

  #violate(kind: string, detail: string, at: string): void {
    this.#violations.push({ kind, at, detail, certain: true })
  }

  #count({ host, allowed, why, count = 1 }: Extract<EventBody, { type: 'EgressDecided' }>): void {
    const known = this.#decided.get(host) ?? { allowed: 0, denied: 0, why: '' }
    if (allowed) known.allowed += count
    else {
      known.denied += count
      known.why = why
    }
    this.#decided.set(host, known)
  }

  /** What the broker counted and what never came as far; without a broker what the log has of both. */
  #networkUse(): NetworkUse {
    const logged = this.#networkOfLog()
    if (this.network === null) return logged
    const unnamed: readonly string[] = Object.values(unnamedHosts)
    const denied = [...this.network.denied, ...logged.denied.filter(({ host }) => unnamed.includes(host))]
    return { allowed: this.network.allowed, denied }
  }

  /** Connections as the log has them, and the bytes it last told of; null where it told of none. */
  #networkOfLog(): NetworkUse {
    const hosts = [...this.#decided]
    return {
      allowed: hosts
        .filter(([, use]) => use.allowed > 0)
        .map(([host, use]) => ({
          host,
          connections: use.allowed,
          bytes: this.#carried.get(host) ?? null,
        })),
      denied: hosts
        .filter(([, use]) => use.denied > 0)
        .map(([host, use]) => ({ host, connections: use.denied, why: use.why })),
    }
  }

  #wallMs(): number {
    if (this.#firstAt === null || this.#lastAt === null) return 0
    return Math.max(0, Date.parse(this.#lastAt) - Date.parse(this.#firstAt))
  }

  /** Disk the workspace takes, as `du` counts it; unreadable parts are left out. */
  async measureDisk(directory: string): Promise<number | null> {
    const result = await run('du', ['-sk', '--', directory]).catch(() => null)
    const kilobytes = Number.parseInt(result?.stdout.toString() ?? '', 10)
    return Number.isNaN(kilobytes) ? null : tenths(kilobytes / 1024)
  }

  /** What is left of it, or what was counted against its limit, if that was more. */
  #mostDisk(): number | null {
    const counted = tenths(this.#resources?.disk_mb ?? 0)
    return this.diskMb === null ? this.diskMb : Math.max(this.diskMb, counted)
  }

  /** What it could once do it may have done, also where it was narrowed later. */
  #widest(): BoundaryLevel {
    return this.#history.reduce<BoundaryLevel>(
      (widest, { to }) => (boundaryRank(to) > boundaryRank(widest) ? to : widest),
      this.#terms.boundary,
    )
  }

  effective(): SandboxEffective {
    const { level, strategy, ceiling, root_modes: modes } = this.#terms
    return {
      tools_used: [...this.#tools],
      access_mode: accessModeOfBoundary[this.#widest()],
      turns_used: this.#turns,
      commands_used: this.#commands,
      violations: this.#violations,
      level,
      driver: this.driver,
      workspace: strategy,
      ...(this.#workspaceDriver === undefined ? {} : { workspace_driver: this.#workspaceDriver }),
      ...(modes === undefined ? {} : { root_modes: modes }),
      ...(ceiling === undefined ? {} : { ceiling }),
      ...(this.#limitsBy === undefined ? {} : { limits_by: this.#limitsBy }),
      boundary_history: this.#history,
      network: this.#networkUse(),
      resources: {
        wall_ms: this.#resources?.wall_ms ?? this.#wallMs(),
        cpu_ms: this.#resources?.cpu_ms ?? null,
        // Looked at now and then: of one that ended sooner nobody knows.
        max_rss_mb: this.#resources?.max_rss_mb || null,
        disk_mb: this.#mostDisk(),
      },
      declared_equals_actual: this.#probe,
    }
  }
}
