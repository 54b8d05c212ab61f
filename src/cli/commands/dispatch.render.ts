import { changeInWords } from '../../shared/boundary.ts'
import { compareSandbox, type ComparedField } from '../../shared/compare.ts'
import { comparisonLines } from '../../shared/comparisonLines.ts'
import type { DispatchDetail, DispatchRow } from '../../shared/dispatch.ts'
import type { EventBody, LoggedEvent } from '../../shared/events.ts'
import { showTarget } from '../../shared/hosts.ts'
import { levelNames } from '../../shared/level.ts'
import { shellLine } from '../../shared/shellLine.ts'
import { asTree } from '../../shared/tree.ts'
import { paint, paintState } from '../terminal/style.ts'
import { renderFields, renderTable } from '../terminal/table.ts'
import { age, duration, plural } from '../terminal/words.ts'
import { showAll } from '../../shared/visible.ts'

const titleOf = ({ name, prompt, command, agent }: DispatchRow) =>
  showAll(name ?? (command.length > 0 ? shellLine(command) : (prompt ?? agent)))

const levelOf = ({ level }: DispatchRow) => (level === null ? '-' : `${level} ${levelNames[level]}`)

const stateOf = ({ status, recorded_status: recorded }: DispatchRow) =>
  recorded === undefined ? paintState(status) : showAll(recorded)

function changesOf({ changeset }: DispatchRow): string {
  if (changeset === null) return '-'
  return `${paintState(changeset.state)} ${changeset.files} (+${changeset.insertions} -${changeset.deletions})`
}

export function renderList(rows: readonly DispatchRow[], tree: boolean): string {
  if (rows.length === 0) return 'no dispatches yet'
  const ordered = tree ? asTree(rows) : rows.map((row) => ({ row, depth: 0 }))
  // A child whose parent is further back than the list goes must not look like one that has none.
  const of = ({ parent_id: parent }: DispatchRow, depth: number) =>
    tree && parent !== null && depth === 0 ? `child of ${showAll(parent)}: ` : ''
  const cells = ordered.map(({ row, depth }) => [
    `${'  '.repeat(depth)}${row.id}`,
    stateOf(row),
    levelOf(row),
    row.boundary ?? '-',
    changesOf(row),
    age(row.created_at),
    of(row, depth) + titleOf(row),
  ])
  return renderTable(['id', 'status', 'level', 'boundary', 'changeset', 'started', 'what'], cells)
}

export function renderDetail(detail: DispatchDetail): string {
  const fields: [string, string][] = [['id', detail.id]]
  const add = (name: string, value: string | null | undefined) => {
    if (value !== null && value !== undefined && value !== '') fields.push([name, value])
  }
  add('status', stateOf(detail) + (detail.exit_code === null ? '' : `, exit code ${detail.exit_code}`))
  add('error', detail.error === null ? null : paint('red', showAll(detail.error)))
  add('name', detail.name === null ? null : showAll(detail.name))
  add('agent', showAll(detail.agent))
  add('command', showAll(shellLine(detail.command)))
  add('prompt', detail.prompt === null ? null : showAll(detail.prompt))
  for (const root of detail.roots) add('root', showAll(root))
  add('parent', detail.parent_id)
  add('role', detail.role === null ? null : showAll(detail.role))
  add('phase', detail.phase)
  add('level', levelOf(detail))
  const isHeld = detail.level !== 0
  add('boundary', detail.boundary === null || isHeld ? detail.boundary : `${detail.boundary}, not enforced`)
  add('created', detail.created_at)
  if (detail.started_at !== null && detail.ended_at !== null) {
    add('took', duration(detail.started_at, detail.ended_at))
  }
  add('changeset', changesOf(detail))
  return `${renderFields(fields)}\n\n${renderComparison(compareSandbox(detail))}`
}

/** What was requested beside what really happened; differences marked, violations named. */
function renderComparison(fields: readonly ComparedField[]): string {
  if (fields.length === 0) return 'nothing requested, nothing recorded'
  const [heading = '', ...lines] = comparisonLines(fields)
  const marked = lines.map((line) =>
    line.startsWith('!') ? paint('red', line) : line.startsWith('≠') ? paint('yellow', line) : line,
  )
  return [paint('dim', heading), ...marked].join('\n')
}

const describers: { [T in EventBody['type']]?: (event: Extract<EventBody, { type: T }>) => string } = {
  DispatchStarting: ({ level, command }) => `level ${level}: ${shellLine(command)}`,
  WorkspaceReady: ({ strategy, detail }) => `${strategy}, ${detail}`,
  SandboxReady: ({ driver }) => driver,
  SelfProbe: ({ result }) =>
    `${plural(result.checks.length, 'check')}, ${result.ok ? 'declared equals actual' : 'MISMATCH'}`,
  AgentStarted: ({ pid }) => `process ${pid}`,
  Output: ({ bytes }) => plural(bytes, 'byte'),
  AgentMessage: ({ role, text }) => `${role}: ${text}`,
  ToolCall: ({ tool, title }) => `${tool}: ${title}`,
  ToolResult: ({ ok, text }) => `${ok ? 'ok' : 'failed'}: ${text}`,
  BoundaryRequested: ({ to, by, why }) => `${by} asks for ${to}: ${why}`,
  BoundaryDenied: ({ by, why }) => `by ${by}: ${why}`,
  BoundaryEscalated: ({ from, to, by, why }) =>
    `${changeInWords(from, to)} by ${by}${why === '' ? '' : `: ${why}`}`,
  BoundaryKept: ({ level, wished, by, why }) => `stays ${level}, ${by} wished for ${wished}: ${why}`,
  EgressDecided: ({ host, port, allowed, why }) =>
    `${showTarget({ host, port })} ${allowed ? 'allowed' : 'denied'}: ${why}`,
  EgressCarried: ({ hosts }) =>
    hosts
      .map(
        ({ host, connections, bytes }) =>
          `${host} ${plural(connections, 'connection')}, ${plural(bytes, 'byte')}`,
      )
      .join('; '),
  Violated: ({ violation }) =>
    `${violation.kind}: ${violation.detail}${violation.certain ? '' : ' (likely)'}`,
  ChangesetCaptured: ({ files }) => plural(files, 'change'),
  AgentEnded: ({ exit_code, signal }) => (signal === null ? `exit code ${exit_code}` : `signal ${signal}`),
  DispatchEnded: ({ status, error }) => (error === null ? status : `${status}: ${error}`),
  Note: ({ text }) => text,
  LogRepaired: ({ bytes, moved_to }) => `${plural(bytes, 'torn byte')} moved to ${moved_to}`,
}

export function renderEvent({ at, event }: LoggedEvent): string {
  const describe = describers[event.type] as ((event: EventBody) => string) | undefined
  const time = paint('dim', at.slice(11, 23))
  return `${time}  ${event.type.padEnd(18)} ${showAll(describe?.(event) ?? '')}`.trimEnd()
}
