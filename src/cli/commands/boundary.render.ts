import { changeInWords, type BoundaryLevel } from '../../shared/boundary.ts'
import { shortApprovalId, type ListedApproval } from '../../shared/config.ts'
import type { BoundaryRequest, BoundaryState, TaskApproval } from '../../shared/escalation.ts'
import { wildcardsInWords } from '../../shared/opens.ts'
import { showAll } from '../../shared/visible.ts'
import { paint } from '../terminal/style.ts'
import { renderFields, renderTable } from '../terminal/table.ts'
import type { Waiting } from '../inbox.ts'
import { age, duration } from '../terminal/words.ts'

const colours = { open: 'yellow', approved: 'green', denied: 'red', expired: 'dim', closed: 'dim' } as const
const statusOf = ({ status }: BoundaryRequest) => paint(colours[status], status)

/** `from`: what it has. Who says yes to a host is told where that gives it files, too. */
const wishOf = ({ to, hosts }: Pick<BoundaryRequest, 'to' | 'hosts'>, from: BoundaryLevel | null = null) => {
  if (hosts.length === 0) return to
  const files = from === 'readonly' && to !== 'readonly' ? ', and to write files' : ''
  const covered = wildcardsInWords(hosts).map((words) => ` (${words})`)
  return `${to} ${hosts.map(showAll).join(' ')}${covered.join('')}${files}`
}

export function renderRequest(request: BoundaryRequest, from: BoundaryLevel | null = null): string {
  const { id, why, answer, by } = request
  const said = answer === null || answer.message === '' ? '' : `: ${showAll(answer.message)}`
  const answered = answer === null ? '' : ` by ${showAll(answer.by)}${said}`
  return `${id}  ${wishOf(request, from)}  ${statusOf(request)}${answered}  (${showAll(by)}: ${showAll(why)})`
}

/** One that did not take was never in effect, and neither was what it was taken back from. */
function changeOf(history: BoundaryState['history'], index: number): string {
  const [grant, next] = [history[index], history[index + 1]]
  if (grant === undefined) return ''
  const { from, to, way } = grant
  if (way === 'undone') return `still ${to}`
  const isUndone = next?.way === 'undone' && next.to === from
  return `${changeInWords(from, to)}${isUndone ? ', did not take' : ''}`
}

export function renderState(state: BoundaryState): string {
  const fields: [string, string][] = [
    ['id', state.id],
    [
      'boundary',
      (state.level ?? '-') +
        (state.in_effect === undefined ? '' : `, not yet in effect: ${state.in_effect} still holds`),
    ],
  ]
  if (state.hosts.length > 0) fields.push(['hosts', state.hosts.map(showAll).join(' ')])
  if (state.taken.length > 0) fields.push(['taken back', state.taken.map(showAll).join(' ')])
  if (!state.enforced)
    fields.push(['enforced', paint('red', 'no: at level 0 every host and file of yours is in its reach')])
  if (!state.running) fields.push(['running', 'no'])
  const parts = [renderFields(fields)]
  if (state.history.length > 0) {
    const rows = state.history.map(({ at, hosts, by, why }, index) => [
      at.slice(11, 19),
      changeOf(state.history, index),
      hosts.length === 0 ? '-' : hosts.map(showAll).join(' '),
      showAll(by),
      showAll(why),
    ])
    parts.push(renderTable(['when', 'change', 'hosts granted', 'by', 'why'], rows))
  }
  if (state.requests.length > 0)
    parts.push(
      state.requests
        .map((request) => renderRequest(request, request.status === 'open' ? state.level : null))
        .join('\n'),
    )
  return parts.join('\n\n')
}

/** What an agent wrote can be long; the whole of it is in `boundary show`. What a yes would open is never cut. */
const longest = 72
const cut = (text: string) => (text.length > longest ? `${text.slice(0, longest)}…` : text)

const waitingCells = ({ request, row }: Waiting, now: Date): string[] => [
  request.dispatch,
  request.id,
  row?.boundary ?? '-',
  wishOf(request, row?.boundary ?? null),
  String(request.count),
  age(request.created_at, now),
  request.source === 'config' ? '-' : duration(now.toISOString(), request.expires_at),
  row === null ? '-' : row.roots.map(showAll).join(' '),
  cut(`${showAll(request.by)}: ${showAll(request.why)}`),
]

export function renderInbox(inbox: readonly Waiting[], now: Date = new Date()): string {
  if (inbox.length === 0) return 'nothing waits for you'
  const heading = [
    'dispatch',
    'request',
    'has',
    'asks for',
    'times',
    'since',
    'left',
    'folder',
    'who and why',
  ]
  return renderTable(
    heading,
    inbox.map((waiting) => waitingCells(waiting, now)),
  )
}

/** One line, for who reads them as they come. */
export const renderWaiting = (waiting: Waiting, now: Date = new Date()): string =>
  waitingCells(waiting, now).join('  ')

/** One of the user's for other folders is listed, since it is here that one looks for it, and answers nothing here. */
function placeOf({ covers, phase, here }: ListedApproval): string {
  const where = covers === null ? 'everywhere' : covers.map(showAll).join(' ') || 'nowhere'
  return `${here ? '' : 'not here: '}${where}${phase === undefined ? '' : `, phase ${phase}`}`
}

export function renderApprovals(approvals: {
  readonly saved: readonly ListedApproval[]
  readonly tasks: readonly TaskApproval[]
}): string {
  const saved = approvals.saved.map((approval) => [
    shortApprovalId(approval.id),
    approval.agent,
    wishOf({ to: approval.level, hosts: approval.hosts }),
    placeOf(approval),
    approval.expired ? paint('dim', 'expired') : (approval.expires ?? 'for good'),
    `${showAll(approval.file)}:${approval.line}`,
  ])
  const tasks = approvals.tasks
    .filter(({ revoked_at: revoked }) => revoked === null)
    .map((approval) => [
      approval.id,
      approval.agent,
      wishOf({ to: approval.level, hosts: approval.hosts }),
      `task ${approval.task}`,
      'while the task lasts, its review included',
      showAll(approval.by),
    ])
  const rows = [...saved, ...tasks]
  if (rows.length === 0) return 'nothing is approved in advance'
  return renderTable(['id', 'agent', 'allows', 'where', 'until', 'from'], rows)
}
