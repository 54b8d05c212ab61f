import { changeInWords } from '../../shared/boundary.ts'
import { showTarget } from '../../shared/hosts.ts'
import { shellLine } from '../../shared/shellLine.ts'
import type { LoggedEvent } from '../../shared/events.ts'
import { levelWords, statusWords } from '../dispatches/words.ts'
import type { Tone } from '../design/Badge.tsx'

export type Entry = {
  readonly seq: number
  readonly at: string
  readonly title: string
  readonly detail: string | null
  readonly tone: Tone
}

type Told = { readonly title: string; readonly detail?: string | null; readonly tone?: Tone }

function tell({ event }: LoggedEvent): Told | null {
  switch (event.type) {
    case 'DispatchStarting':
      return {
        title: `Dispatch at level ${event.level}, ${levelWords[event.level].label}`,
        detail: shellLine(event.command),
      }
    case 'WorkspaceReady':
      return { title: `Workspace ready: ${event.strategy}`, detail: event.detail }
    case 'SandboxReady':
      return { title: 'Sandbox ready', detail: event.driver }
    case 'SelfProbe': {
      const wrong = event.result.checks.filter((check) => !check.ok)
      return wrong.length === 0 && event.result.ok
        ? {
            title: 'Declared equals actual',
            detail: `${event.result.checks.length} ${event.result.checks.length === 1 ? 'check' : 'checks'} from inside`,
            tone: 'good',
          }
        : {
            title: 'Declared is not actual',
            detail: wrong.map((check) => `${check.name}: ${check.actual}`).join(', '),
            tone: 'bad',
          }
    }
    case 'AgentStarted':
      return { title: 'Agent started', detail: `pid ${event.pid}`, tone: 'live' }
    case 'AgentMessage':
      return {
        title:
          event.role === 'user'
            ? 'Told the agent'
            : event.role === 'thought'
              ? 'Agent thought'
              : 'Agent said',
        detail: event.text,
      }
    case 'ToolCall':
      return { title: `Called ${event.tool}`, detail: event.title }
    case 'ToolResult':
      return event.ok ? null : { title: 'Tool failed', detail: event.text, tone: 'warn' }
    case 'BoundaryRequested':
      return {
        // The config asks for nothing: it could not bring the agent down to what it allows by now.
        title: event.by === 'config' ? `Still ${event.to}, beyond the config` : `Asked for ${event.to}`,
        detail: [event.why, ...event.hosts].filter(Boolean).join(' · '),
        tone: 'accent',
      }
    case 'BoundaryDenied':
      return { title: `Denied by ${event.by}`, detail: event.why, tone: 'bad' }
    case 'BoundaryEscalated':
      return {
        title: `Boundary ${changeInWords(event.from, event.to, 'set')}`,
        detail: event.why === '' ? event.by : `${event.by}: ${event.why}`,
        tone: 'accent',
      }
    case 'BoundaryKept':
      return {
        title: `Boundary stays ${event.level}`,
        detail: `${event.by} wished for ${event.wished}: ${event.why}`,
        tone: 'bad',
      }
    case 'EgressDecided':
      return {
        title: `${event.allowed ? 'Reached' : 'Refused'} ${showTarget(event)}`,
        detail: event.why,
        tone: event.allowed ? 'neutral' : 'bad',
      }
    // Shown beside the hosts, where it belongs.
    case 'EgressCarried':
      return null
    case 'Violated':
      return {
        title: `${event.violation.certain ? 'Violation' : 'Likely violation'}: ${event.violation.kind.replaceAll('_', ' ')}`,
        detail: event.violation.detail,
        tone: 'bad',
      }
    case 'ChangesetCaptured':
      return {
        title: `Captured ${event.files} changed ${event.files === 1 ? 'file' : 'files'}`,
        detail: event.revision.slice(0, 12),
      }
    case 'AgentEnded':
      return {
        title:
          event.signal === null
            ? `Agent ended with code ${event.exit_code ?? '?'}`
            : `Agent ended by ${event.signal}`,
        tone: event.exit_code === 0 ? 'good' : 'bad',
      }
    case 'DispatchEnded':
      return {
        title: statusWords[event.status].label,
        detail: event.error,
        tone: statusWords[event.status].tone,
      }
    case 'Note':
      return { title: 'Note', detail: event.text }
    case 'LogRepaired':
      return { title: 'Torn line moved out of the log', detail: `${event.bytes} bytes, ${event.moved_to}` }
    default:
      // A newer engine may say more than this window knows.
      return { title: (event as { type: string }).type }
  }
}

/** Of captures in a row the last holds what the others held: a busy agent would bury everything else under them. */
const isRepeated = ({ event }: LoggedEvent, next: LoggedEvent | undefined): boolean =>
  event.type === 'ChangesetCaptured' && next?.event.type === 'ChangesetCaptured'

export function timelineOf(events: readonly LoggedEvent[]): readonly Entry[] {
  // How much was printed by then is for provenance, not for reading.
  const told = events.filter(({ event }) => event.type !== 'Output')
  const kept = told.filter((logged, at) => !isRepeated(logged, told[at + 1]))
  return kept.flatMap((logged) => {
    const told = tell(logged)
    return told === null
      ? []
      : [
          {
            seq: logged.seq,
            at: logged.at,
            title: told.title,
            detail: told.detail ?? null,
            tone: told.tone ?? 'neutral',
          },
        ]
  })
}
