import {
  ArchiveRestore,
  Download,
  Ellipsis,
  FileDiff,
  FolderGit2,
  ScrollText,
  Square,
  SquareTerminal,
  Trash2,
  Undo2,
  MessageSquareReply,
} from 'lucide-react'
import { Tabs } from 'radix-ui'
import { useState, type ReactNode } from 'react'
import { isTerminal, type DispatchDetail, type DispatchRow } from '../../shared/dispatch.ts'
import type { BoundaryRequest } from '../../shared/escalation.ts'
import { exportFormats, type ExportFormat } from '../../shared/changeset.ts'
import { useClient } from '../client/context.tsx'
import { useAct, useAnswer } from '../client/queries.ts'
import { download } from './download.ts'
import { Badge } from '../design/Badge.tsx'
import { Button } from '../design/Button.tsx'
import { Menu, MenuItem } from '../design/Menu.tsx'
import { showError, showToast } from '../design/toasts.ts'
import { BoundaryControl } from '../inbox/BoundaryControl.tsx'
import { RequestCard } from '../inbox/RequestCard.tsx'
import { Output } from '../output/Output.tsx'
import { Record } from '../record/Record.tsx'
import { AbandonDialog, ApplyDialog, SendBackDialog, StopDialog } from '../review/Endings.tsx'
import { Changes } from '../review/Changes.tsx'
import { tallyOf } from '../review/model.ts'
import { go, type DispatchTab } from '../shell/route.ts'
import { useKeys } from '../shell/useKeys.ts'
import { Plain } from '../text/Plain.tsx'
import { duration } from '../text/time.ts'
import { useNow } from '../text/useNow.ts'
import { BoundaryBadge, Counts, LevelBadge, StatusBadge } from './Badges.tsx'
import { changesetWords, titleOf } from './words.ts'

const exportWords: Readonly<Record<ExportFormat, string>> = {
  patch: 'Save as a patch',
  tar: 'Save the results (tar)',
  json: 'Save for a reviewing agent (JSON)',
}

type Ending = 'apply' | 'abandon' | 'back' | 'stop' | null

function Elapsed({ row }: { row: DispatchRow }) {
  const running = !isTerminal(row.status)
  const now = useNow(running ? 1000 : 3_600_000)
  if (row.started_at === null) return null
  const end = row.ended_at === null ? now : Date.parse(row.ended_at)
  const passed = Math.max(0, end - Date.parse(row.started_at))
  return (
    <span className="tabular shrink-0 text-small text-ink-faint">
      {duration(running ? Math.floor(passed / 1000) * 1000 : passed)}
    </span>
  )
}

function Tab({ value, icon, children }: { value: DispatchTab; icon: ReactNode; children: ReactNode }) {
  return (
    <Tabs.Trigger
      value={value}
      className="relative flex h-9 items-center gap-1.5 px-2.5 text-ink-soft outline-offset-[-3px] hover:text-ink data-[state=active]:font-medium data-[state=active]:text-ink data-[state=active]:after:absolute data-[state=active]:after:inset-x-2 data-[state=active]:after:bottom-[-1px] data-[state=active]:after:h-0.5 data-[state=active]:after:rounded-full data-[state=active]:after:bg-accent"
    >
      {icon}
      {children}
    </Tabs.Trigger>
  )
}

const isOpen = (state: string | undefined) => state === 'review'

function ChangesTab({ row }: { row: DispatchRow }) {
  const changeset = useAnswer('changeset.get', { id: row.id }, { enabled: row.changeset !== null })
  if (row.changeset === null) {
    return (
      <div className="grid flex-1 place-items-center text-center text-ink-faint">
        <div>
          <FileDiff size={24} strokeWidth={1.5} className="mx-auto mb-2" />
          {isTerminal(row.status) ? 'It changed nothing.' : 'No changes so far.'}
        </div>
      </div>
    )
  }
  if (changeset.data !== undefined) return <Changes key={row.id} id={row.id} latest={changeset.data} />
  return (
    <div className="selectable grid flex-1 place-items-center text-ink-faint">
      {changeset.error === null ? 'Reading the changes…' : <Plain>{changeset.error.message}</Plain>}
    </div>
  )
}

type DispatchPageProps = { id: string; tab: DispatchTab | null; requests: readonly BoundaryRequest[] }

export function DispatchPage({ id, tab, requests }: DispatchPageProps) {
  const detail = useAnswer('dispatch.get', { id })
  if (detail.data === undefined) {
    return (
      <div className="grid h-full place-items-center">
        {detail.error !== null && (
          <p className="selectable max-w-md text-center text-ink-soft">
            <Plain>{detail.error.message}</Plain>
          </p>
        )}
      </div>
    )
  }
  return (
    <Page
      row={detail.data}
      requests={requests}
      tab={tab ?? (isOpen(detail.data.changeset?.state) ? 'changes' : 'output')}
    />
  )
}

type PageProps = { row: DispatchDetail; requests: readonly BoundaryRequest[]; tab: DispatchTab }

function Page({ row, requests, tab }: PageProps) {
  const [denying, setDenying] = useState<string | null>(null)
  const [ending, setEnding] = useState<Ending>(null)
  const changeset = useAnswer('changeset.get', { id: row.id }, { enabled: isOpen(row.changeset?.state) })
  const state = row.changeset?.state
  const running = !isTerminal(row.status)
  const undo = useAct('changeset.undo', {
    onDone: ({ applied }) =>
      showToast({
        tone: 'good',
        title: `Undone. ${applied.length} ${applied.length === 1 ? 'file is' : 'files are'} as before.`,
      }),
  })
  const restore = useAct('changeset.restore', {
    onDone: () => showToast({ tone: 'good', title: 'Back in review' }),
  })
  const client = useClient()
  const saveExport = async (format: ExportFormat) => {
    try {
      download(await client.call('changeset.export', { id: row.id, format }))
    } catch (error) {
      showError(error)
    }
  }
  const tally = changeset.data === undefined ? null : tallyOf(changeset.data)
  const nothingToApply = tally !== null && tally.approvedFiles === 0 && tally.openFiles === 0
  const whyNot = nothingToApply
    ? tally.protectedOpen > 0
      ? 'Only protected files are left. Decide on them one by one.'
      : 'Nothing is approved.'
    : null
  useKeys({
    o: () => go({ page: 'dispatch', id: row.id, tab: 'output' }),
    c: () => go({ page: 'dispatch', id: row.id, tab: 'changes' }),
    e: () => go({ page: 'dispatch', id: row.id, tab: 'record' }),
  })

  return (
    <Tabs.Root
      value={tab}
      onValueChange={(next) => go({ page: 'dispatch', id: row.id, tab: next as DispatchTab })}
      className="flex h-full min-h-0 flex-col"
    >
      <header className="shrink-0 border-b border-line px-5 pt-3.5">
        <div className="flex items-center gap-3">
          <h1
            className="min-w-0 flex-1 truncate text-title font-semibold tracking-tight"
            title={titleOf(row)}
          >
            <Plain>{titleOf(row)}</Plain>
          </h1>
          {running && (
            <Button icon={<Square size={12} className="fill-current" />} onClick={() => setEnding('stop')}>
              Stop
            </Button>
          )}
          {state === 'applied' && (
            <Button
              icon={<Undo2 size={14} />}
              disabled={undo.isPending}
              onClick={() => undo.mutate({ id: row.id })}
            >
              Undo
            </Button>
          )}
          {(state === 'abandoned' || state === 'rejected') && (
            <Button
              icon={<ArchiveRestore size={14} />}
              disabled={restore.isPending}
              onClick={() => restore.mutate({ id: row.id })}
            >
              Back to review
            </Button>
          )}
          {isOpen(state) && (
            <>
              <Menu trigger={<Button look="quiet" icon={<Ellipsis size={16} />} aria-label="More actions" />}>
                <MenuItem icon={<MessageSquareReply size={14} />} onSelect={() => setEnding('back')}>
                  Send back to the agent…
                </MenuItem>
                {exportFormats.map((format) => (
                  <MenuItem
                    key={format}
                    icon={<Download size={14} />}
                    onSelect={() => void saveExport(format)}
                  >
                    {exportWords[format]}
                  </MenuItem>
                ))}
              </Menu>
              <Button icon={<Trash2 size={14} />} onClick={() => setEnding('abandon')}>
                Abandon…
              </Button>
              <Button
                look="primary"
                disabled={running || changeset.data === undefined || whyNot !== null}
                {...(running ? { tip: 'It is still running.' } : whyNot === null ? {} : { tip: whyNot })}
                onClick={() => setEnding('apply')}
              >
                Apply…
              </Button>
            </>
          )}
        </div>
        <div className="mt-1.5 flex min-w-0 items-center gap-1.5 overflow-hidden">
          <StatusBadge row={row} />
          {state !== undefined && !(running && state === 'active') && (
            <Badge tone={changesetWords[state].tone}>{changesetWords[state].label}</Badge>
          )}
          {row.level !== null && <LevelBadge level={row.level} />}
          {row.boundary !== null &&
            (running ? (
              <BoundaryControl row={row} boundary={row.boundary} />
            ) : (
              <BoundaryBadge boundary={row.boundary} />
            ))}
          <span
            className="ml-1.5 flex min-w-0 items-center gap-1.5 text-small text-ink-faint"
            title={row.roots.join('\n')}
          >
            <FolderGit2 size={13} className="shrink-0" />
            <span className="truncate font-mono text-micro">
              <Plain>{row.roots[0] ?? ''}</Plain>
            </span>
            {row.roots.length > 1 && <span className="shrink-0">+{row.roots.length - 1}</span>}
          </span>
          <span className="flex-1" />
          <Elapsed row={row} />
        </div>
        <Tabs.List className="mt-1.5 -ml-2.5 flex gap-1">
          <Tab value="output" icon={<SquareTerminal size={14} />}>
            Output
          </Tab>
          <Tab value="changes" icon={<FileDiff size={14} />}>
            Changes
            {row.changeset !== null && row.changeset.files > 0 && (
              <>
                <span className="tabular rounded-sm bg-hover px-1 text-micro text-ink-soft">
                  {row.changeset.files}
                </span>
                <Counts insertions={row.changeset.insertions} deletions={row.changeset.deletions} />
              </>
            )}
          </Tab>
          <Tab value="record" icon={<ScrollText size={14} />}>
            Record
          </Tab>
        </Tabs.List>
      </header>
      {requests.length > 0 && (
        <div className="max-h-72 shrink-0 space-y-2 overflow-y-auto border-b border-line bg-accent-wash p-3">
          {requests.map((request) => (
            <RequestCard
              key={request.id}
              bare
              request={request}
              row={row}
              denying={denying === request.id}
              onDenying={(open) => setDenying(open ? request.id : null)}
            />
          ))}
        </div>
      )}
      <Tabs.Content value="output" className="flex min-h-0 flex-1 flex-col outline-none">
        <Output key={row.id} row={row} />
      </Tabs.Content>
      <Tabs.Content value="changes" className="flex min-h-0 flex-1 flex-col outline-none">
        <ChangesTab row={row} />
      </Tabs.Content>
      <Tabs.Content value="record" className="flex min-h-0 flex-1 flex-col outline-none">
        <Record detail={row} />
      </Tabs.Content>

      {changeset.data !== undefined && (
        <>
          <ApplyDialog
            open={ending === 'apply'}
            changeset={changeset.data}
            onClose={() => setEnding(null)}
            onUndo={() => undo.mutate({ id: row.id })}
          />
          <AbandonDialog
            open={ending === 'abandon'}
            changeset={changeset.data}
            onClose={() => setEnding(null)}
          />
          <SendBackDialog
            open={ending === 'back'}
            changeset={changeset.data}
            onClose={() => setEnding(null)}
          />
        </>
      )}
      <StopDialog open={ending === 'stop'} row={row} onClose={() => setEnding(null)} />
    </Tabs.Root>
  )
}
