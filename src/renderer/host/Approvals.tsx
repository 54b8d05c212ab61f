import { Globe, Trash2 } from 'lucide-react'
import { useMemo, type ReactNode } from 'react'
import type { EffectiveApproval } from '../../shared/config.ts'
import type { TaskApproval } from '../../shared/escalation.ts'
import { useAct, useAnswer } from '../client/queries.ts'
import { Badge } from '../design/Badge.tsx'
import { Button } from '../design/Button.tsx'
import { Reading, Rows, Section } from '../design/Section.tsx'
import { Trouble } from '../design/Trouble.tsx'
import { showToast } from '../design/toasts.ts'
import { useDispatches } from '../dispatches/useDispatches.ts'
import { boundaryWords, titleOf } from '../dispatches/words.ts'
import { go } from '../shell/route.ts'
import { PathText, Plain } from '../text/Plain.tsx'

function Approval({
  what,
  level,
  hosts,
  details,
  busy,
  onRevoke,
}: {
  what: string
  level: keyof typeof boundaryWords
  hosts: readonly string[]
  details: ReactNode
  busy: boolean
  onRevoke(): void
}) {
  return (
    <li className="flex items-start gap-3 px-4 py-2.5">
      <div className="selectable min-w-0 flex-1 space-y-0.5">
        <p className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <span className="font-medium [overflow-wrap:anywhere]">
            <Plain>{what}</Plain>
          </span>
          <Badge tone={level === 'full' ? 'warn' : 'neutral'}>{boundaryWords[level].label}</Badge>
          {hosts.length > 0 && (
            <span className="inline-flex min-w-0 items-center gap-1 font-mono text-small [overflow-wrap:anywhere] text-ink-soft">
              <Globe size={12} className="shrink-0" />
              <Plain>{hosts.join(', ')}</Plain>
            </span>
          )}
        </p>
        <div className="text-small text-ink-faint">{details}</div>
      </div>
      <Button
        look="dangerQuiet"
        size="small"
        icon={<Trash2 size={13} />}
        disabled={busy}
        aria-label={`Revoke ${what} ${hosts.join(', ') || boundaryWords[level].label}`}
        onClick={onRevoke}
      >
        Revoke
      </Button>
    </li>
  )
}

const forWhom = (agent: string) => (agent === '*' ? 'Any agent' : agent)

function SavedDetails({ approval }: { approval: EffectiveApproval }) {
  const parts = [
    approval.covers === null ? 'everywhere' : `in ${approval.covers.join(', ')}`,
    ...(approval.phase === undefined ? [] : [`in phase ${approval.phase}`]),
    ...(approval.expires === undefined
      ? []
      : [`${approval.expired ? 'expired' : 'until'} ${new Date(approval.expires).toLocaleString()}`]),
    ...(approval.note === undefined ? [] : [approval.note]),
  ]
  return (
    <>
      <p className="[overflow-wrap:anywhere]">
        <Plain>{parts.join(' · ')}</Plain>
      </p>
      <PathText path={`${approval.file}:${approval.line}`} className="font-mono text-micro" />
    </>
  )
}

/** Every yes that holds without a question, where it is written, and the way to take it back. */
export function Approvals() {
  const list = useDispatches()
  const rows = useMemo(() => list.data ?? [], [list.data])
  const roots = useMemo(() => [...new Set(rows.flatMap((row) => row.roots))].toSorted(), [rows])
  const approvals = useAnswer(
    'boundary.approvals',
    { roots },
    { fresh: true, enabled: list.data !== undefined, keep: true },
  )
  const revoke = useAct('boundary.revoke', {
    onDone: () =>
      showToast({ tone: 'good', title: 'Revoked', detail: 'From now on it is asked about again.' }),
  })
  if (approvals.error !== null)
    return <Trouble error={approvals.error} onRetry={() => void approvals.refetch()} />
  if (approvals.data === undefined) return <Reading what="Reading the config files…" />
  const { saved } = approvals.data
  const tasks = approvals.data.tasks.filter((task) => task.revoked_at === null)
  const take = (approval: string) => revoke.mutate({ approval, roots })
  const taskName = ({ task }: TaskApproval) => {
    const row = rows.find((each) => each.id === task)
    return row === undefined ? task : titleOf(row)
  }
  return (
    <>
      {(['user', 'project'] as const).map((source) => (
        <Section
          key={source}
          title={source === 'user' ? 'Saved for you' : 'Saved to projects'}
          hint={
            source === 'user'
              ? 'In your own config: they hold in every folder they name.'
              : 'In the config of a project: they hold for everybody who trusts it.'
          }
        >
          <Rows empty="None.">
            {saved
              .filter((approval) => approval.source === source)
              .map((approval) => (
                <Approval
                  key={approval.id + approval.file}
                  what={forWhom(approval.agent)}
                  level={approval.level}
                  hosts={approval.hosts}
                  details={<SavedDetails approval={approval} />}
                  busy={revoke.isPending}
                  onRevoke={() => take(approval.id)}
                />
              ))}
          </Rows>
        </Section>
      ))}
      <Section title="For a task" hint="They hold for one dispatch, its children and its later turns.">
        <Rows empty="None.">
          {tasks.map((task) => (
            <Approval
              key={task.id}
              what={forWhom(task.agent)}
              level={task.level}
              hosts={task.hosts}
              details={
                <button
                  type="button"
                  onClick={() => go({ page: 'dispatch', id: task.task, tab: 'record' })}
                  className="rounded-sm text-left hover:text-ink hover:underline"
                >
                  <Plain>{`${taskName(task)} · by ${task.by}, ${new Date(task.at).toLocaleString()}`}</Plain>
                </button>
              }
              busy={revoke.isPending}
              onRevoke={() => take(task.id)}
            />
          ))}
        </Rows>
      </Section>
    </>
  )
}
