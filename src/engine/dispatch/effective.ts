import { accessModeOfBoundary, type BoundaryChange } from '../../shared/boundary.ts'
import type { DeclaredEqualsActual, NetworkUse, SandboxEffective, Violation } from '../../shared/effective.ts'
import type { EventBody } from '../../shared/events.ts'
import type { Contract } from '../base/contract.ts'
import { run } from '../base/process.ts'
import type { SandboxEnd } from '../base/sandbox.ts'

/** Gathers what really happened from the events of one dispatch, so that the log and the record agree. */
export class Observations {
  driver = 'none'
  diskMb = 0
  network: NetworkUse = { allowed: [], denied: [] }
  readonly #contract: Contract
  readonly #startedMs = Date.now()
  readonly #violations: Violation[] = []
  readonly #history: BoundaryChange[]
  readonly #tools = new Set<string>()
  #commands = 0
  #turns = 0
  #probe: DeclaredEqualsActual = { ok: false, checks: [] }
  #resources: SandboxEnd['resources'] | null = null

  constructor(contract: Contract) {
    this.#contract = contract
    const at = new Date(this.#startedMs).toISOString()
    this.#history = [{ at, from: null, to: contract.boundary, by: 'spawn', why: 'as requested' }]
  }

  observe(event: EventBody): void {
    switch (event.type) {
      case 'SandboxReady':
        this.driver = event.driver
        break
      case 'SelfProbe':
        this.#probe = event.result
        if (!event.result.ok) this.#violate('declared_not_actual', 'the sandbox is not what was declared')
        break
      case 'Violated':
        this.#violations.push(event.violation)
        break
      case 'BoundaryEscalated':
        this.#history.push({
          at: new Date().toISOString(),
          from: event.from,
          to: event.to,
          by: event.by,
          why: event.why,
        })
        break
      case 'ToolCall':
        this.#tools.add(event.tool)
        this.#commands++
        break
      case 'AgentMessage':
        if (event.role === 'agent') this.#turns++
        break
      default:
    }
  }

  ended(end: SandboxEnd): void {
    this.#resources = end.resources
  }

  #violate(kind: string, detail: string): void {
    this.#violations.push({ kind, at: new Date().toISOString(), detail, certain: true })
  }

  /** Disk the workspace takes, as `du` counts it; unreadable parts are left out. */
  async measureDisk(directory: string): Promise<number> {
    const result = await run('du', ['-sk', '--', directory]).catch(() => null)
    const kilobytes = Number.parseInt(result?.stdout.toString() ?? '', 10)
    return Number.isNaN(kilobytes) ? 0 : Math.round((kilobytes / 1024) * 10) / 10
  }

  effective(): SandboxEffective {
    const boundary = this.#history.at(-1)?.to ?? this.#contract.boundary
    return {
      tools_used: [...this.#tools],
      access_mode: accessModeOfBoundary[boundary],
      turns_used: this.#turns,
      commands_used: this.#commands,
      violations: this.#violations,
      level: this.#contract.level,
      driver: this.driver,
      workspace: this.#contract.strategy,
      boundary_history: this.#history,
      network: this.network,
      resources: {
        wall_ms: this.#resources?.wall_ms ?? Date.now() - this.#startedMs,
        cpu_ms: this.#resources?.cpu_ms ?? 0,
        max_rss_mb: this.#resources?.max_rss_mb ?? 0,
        disk_mb: this.diskMb,
      },
      declared_equals_actual: this.#probe,
    }
  }
}
