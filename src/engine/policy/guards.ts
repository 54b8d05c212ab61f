import { turnBegun, type EventBody } from '../../shared/events.ts'
import type { BoundaryLevel } from '../../shared/boundary.ts'
import type { EffectiveConfig, ResolvedLevel } from '../../shared/config.ts'
import type { Contract } from '../base/contract.ts'
import { capabilitiesOf } from './capabilities.ts'
import { commandRefusal, commandsOfLine } from './commands.ts'
import { commonNames, unique } from './config/narrow.ts'

/**
 * What watches over an agent beside its boundary. A forbidden tool is a call an unattended agent cannot answer
 * (a question to a person, say): it is orthogonal to what the sandbox allows, and neither overrides the other.
 */
export type GuardRules = {
  readonly forbiddenTools: readonly string[]
  /** Zero: never. */
  readonly inactivityMs: number
  readonly toolsAllowed: readonly string[] | null
  readonly toolsDenied: readonly string[]
  readonly commands: ResolvedLevel['commands']
  readonly maxTurns: number | null
  readonly maxCommands: number | null
  readonly onLimit: 'record' | 'stop'
}

export type GuardState = {
  readonly lastSignMs: number
  readonly turns: number
  /** The one that was counted last. */
  readonly turn: string | null
  readonly commands: number
  /** What was reported already: a limit is passed once. */
  readonly reported: ReadonlySet<string>
}

export type Finding = { readonly kind: string; readonly detail: string; readonly stop: boolean }

/** The rules at a boundary: what the contract says holds throughout, what the level says only at that level. */
export function guardRules(contract: Contract, config: EffectiveConfig, level: BoundaryLevel): GuardRules {
  const { tools, commands } = capabilitiesOf(level, config)
  return {
    forbiddenTools: config.agentForbiddenTools,
    inactivityMs: config.agentInactivityTimeout * 1000,
    toolsAllowed: commonNames(contract.toolsAllowed, tools.allow),
    toolsDenied: unique([...contract.toolsDenied, ...tools.deny]),
    commands,
    maxTurns: contract.maxTurns,
    maxCommands: contract.maxCommands,
    onLimit: contract.onLimit,
  }
}

export const freshGuard = (nowMs: number): GuardState => ({
  lastSignMs: nowMs,
  turns: 0,
  turn: null,
  commands: 0,
  reported: new Set(),
})

/** Tool names are told apart without regard to case and to what comes after a bracket: `Bash(git:*)` is `bash`. */
const bare = (tool: string): string => tool.replace(/\(.*$/s, '').trim().toLowerCase()
const names = (list: readonly string[], tool: string): boolean =>
  list.some((name) => bare(name) === bare(tool))

function toolFindings(rules: GuardRules, tool: string): Finding[] {
  const findings: Finding[] = []
  if (names(rules.forbiddenTools, tool)) {
    // Nobody will ever answer it: going on would only wait.
    findings.push({
      kind: 'forbidden_tool',
      detail: `${tool}: an unattended agent cannot use it`,
      stop: true,
    })
  }
  const denied = names(rules.toolsDenied, tool)
  if (denied || (rules.toolsAllowed !== null && !names(rules.toolsAllowed, tool))) {
    const why = denied ? 'it is denied' : 'it is not among the tools that are allowed'
    findings.push({ kind: 'tool_not_allowed', detail: `${tool}: ${why}`, stop: rules.onLimit === 'stop' })
  }
  return findings
}

/** Where a protocol shows the line an agent gives to a shell. */
function commandFindings(rules: GuardRules, input: unknown): Finding[] {
  const line = (input as { command?: unknown } | null | undefined)?.command
  if (typeof line !== 'string') return []
  return commandsOfLine(line)
    .map((call) => commandRefusal(rules.commands, call))
    .filter((why) => why !== null)
    .map((detail) => ({ kind: 'command_not_allowed', detail, stop: rules.onLimit === 'stop' }))
}

function limitFinding(rules: GuardRules, kind: string, used: number, most: number | null): Finding[] {
  if (most === null || used <= most) return []
  return [{ kind, detail: `more than ${most}`, stop: rules.onLimit === 'stop' }]
}

const agentEvents = new Set<EventBody['type']>(['AgentMessage', 'ToolCall', 'ToolResult', 'Output'])

/** What an event means for the guards. What the agent does is a sign of life; what we do around it is not. */
export function observe(
  rules: GuardRules,
  before: GuardState,
  event: EventBody,
  nowMs: number,
): { readonly state: GuardState; readonly findings: readonly Finding[] } {
  const state = { ...before, lastSignMs: agentEvents.has(event.type) ? nowMs : before.lastSignMs }
  const findings: Finding[] = []
  const begun = turnBegun(event, state.turn)
  if (begun !== null) {
    state.turn = begun
    state.turns += 1
    findings.push(...limitFinding(rules, 'max_turns', state.turns, rules.maxTurns))
  }
  if (event.type === 'ToolCall') {
    state.commands += 1
    findings.push(
      ...toolFindings(rules, event.tool),
      ...commandFindings(rules, event.input),
      ...limitFinding(rules, 'max_commands', state.commands, rules.maxCommands),
    )
  }
  return once(state, findings)
}

/**
 * Looks at the clock: an agent that gave no sign for too long is stopped. While a person is asked, its silence
 * is not its own: the time starts anew when it is answered.
 */
export function lookAtClock(
  rules: GuardRules,
  before: GuardState,
  nowMs: number,
  waitsForPerson: () => boolean = () => false,
): { readonly state: GuardState; readonly findings: readonly Finding[] } {
  if (rules.inactivityMs === 0) return { state: before, findings: [] }
  // At every look, so that whoever was answered has his whole time again.
  if (waitsForPerson()) return { state: { ...before, lastSignMs: nowMs }, findings: [] }
  if (nowMs - before.lastSignMs < rules.inactivityMs) return { state: before, findings: [] }
  const detail = `no sign of life for ${rules.inactivityMs / 1000} s`
  return once(before, [{ kind: 'inactivity', detail, stop: true }])
}

/** An agent that makes up names could otherwise fill the record with them. */
const mostReported = 200

function once(state: GuardState, findings: readonly Finding[]) {
  const isFull = state.reported.size >= mostReported
  const fresh = findings.filter(
    ({ kind, detail, stop }) => !state.reported.has(`${kind} ${detail}`) && (stop || !isFull),
  )
  if (fresh.length === 0) return { state, findings: [] }
  const reported = new Set([...state.reported, ...fresh.map(({ kind, detail }) => `${kind} ${detail}`)])
  return { state: { ...state, reported }, findings: fresh }
}

/**
 * The guards of one running agent. `found` hears of each finding once; a finding with `stop` means that the
 * agent is to be ended. Output that is no event of the protocol counts as a sign of life through `alive`.
 */
export class Guards implements Disposable {
  #rules: GuardRules
  readonly #found: (finding: Finding) => void
  readonly #waitsForPerson: () => boolean
  #timer: NodeJS.Timeout | undefined
  #state = freshGuard(performance.now())

  constructor(rules: GuardRules, found: (finding: Finding) => void, waitsForPerson = () => false) {
    this.#rules = rules
    this.#found = found
    this.#waitsForPerson = waitsForPerson
    this.#setClock()
  }

  /** The boundary or the config changed. What was counted goes on counting. */
  setRules(rules: GuardRules): void {
    const { inactivityMs } = this.#rules
    this.#rules = rules
    if (rules.inactivityMs === inactivityMs) return
    this.alive()
    this.#setClock()
  }

  #setClock(): void {
    clearInterval(this.#timer)
    if (this.#rules.inactivityMs === 0) return
    const look = () => lookAtClock(this.#rules, this.#state, performance.now(), this.#waitsForPerson)
    this.#timer = setInterval(() => this.#take(look()), clockMs(this.#rules))
    this.#timer.unref()
  }

  observe(event: EventBody): void {
    this.#take(observe(this.#rules, this.#state, event, performance.now()))
  }

  /** Why a call that an agent asks about beforehand is out of the question; null where the lists allow it. */
  refusal({ tool, input }: Extract<EventBody, { type: 'ToolCall' }>): string | null {
    const findings = [...toolFindings(this.#rules, tool), ...commandFindings(this.#rules, input)]
    return findings[0]?.detail ?? null
  }

  alive(): void {
    this.#state = { ...this.#state, lastSignMs: performance.now() }
  }

  #take({ state, findings }: ReturnType<typeof observe>): void {
    this.#state = state
    for (const finding of findings) this.#found(finding)
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }
}

const clockMs = ({ inactivityMs }: GuardRules): number => Math.min(1_000, Math.max(20, inactivityMs / 4))
