import { FileDiff, Info, ScrollText, SquareTerminal } from 'lucide-react'
import { Tabs } from 'radix-ui'
import { useState } from 'react'
import { isTerminal, type DispatchDetail, type DispatchRow } from '../../shared/dispatch.ts'
import type { BoundaryRequest } from '../../shared/escalation.ts'
import type { AgentCommit } from '../../shared/invocation.ts'
import { useAnswer } from '../client/queries.ts'
import { Badge } from '../design/Badge.tsx'
import { Reading } from '../design/Section.tsx'
import { Tab, TabList } from '../design/Tabs.tsx'
import { Trouble } from '../design/Trouble.tsx'
import { BoundaryControl } from '../inbox/BoundaryControl.tsx'
import { RequestCard } from '../inbox/RequestCard.tsx'
import { Output } from '../output/Output.tsx'
import { Record } from '../record/Record.tsx'
import { Changes } from '../review/Changes.tsx'
import { WaitingLanding } from '../review/WaitingLanding.tsx'
import { go, type DispatchTab } from '../shell/route.ts'
import { useKeys } from '../shell/useKeys.ts'
import { Plain } from '../text/Plain.tsx'
import { duration } from '../text/time.ts'
import { useNow } from '../text/useNow.ts'
import { Actions, whyNotApply } from './Actions.tsx'
import { BoundaryBadge, Counts, LevelBadge, StatusBadge } from './Badges.tsx'
import { Findings } from './Findings.tsx'
import { Place } from './Place.tsx'
import { useWorktree } from './useWorktree.ts'
import { changesetWords, titleOf } from './words.ts'

function Elapsed({ row }: { row: DispatchRow }) {
  const running = !isTerminal(row.status)
  const now = useNow(running ? 1000 : 3_600_000)
  if (row.started_at === null) return null
  const end = row.ended_at === null ? now : Date.parse(row.ended_at)
  const passed = Math.max(0, end - Date.parse(row.started_at))
  return (
    <span className="tabular shrink-0 text-small text-ink-faint tight:hidden" title="How long it ran">
      {duration(running ? Math.floor(passed / 1000) * 1000 : passed)}
    </span>
  )
}

const isOpen = (state: string | undefined) => state === 'review'

function ChangesTab({ row, commits }: { row: DispatchRow; commits: readonly AgentCommit[] }) {
  const id = row.changeset?.id ?? row.id
  const changeset = useAnswer('changeset.get', { id }, { enabled: row.changeset !== null })
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
  if (changeset.data !== undefined)
    return <Changes key={id} id={id} latest={changeset.data} commits={commits} />
  return (
    <div className="grid flex-1 place-items-center p-6">
      {changeset.error === null ? (
        <Reading what="Reading the changes…" />
      ) : (
        <Trouble error={changeset.error} onRetry={() => void changeset.refetch()} />
      )}
    </div>
  )
}

type DispatchPageProps = { id: string; tab: DispatchTab | null; requests: readonly BoundaryRequest[] }

export function DispatchPage({ id, tab, requests }: DispatchPageProps) {
  const detail = useAnswer('dispatch.get', { id })
  if (detail.data === undefined) {
    return (
      <div className="grid h-full place-items-center p-6">
        {detail.error === null ? (
          <Reading what="Reading the record…" />
        ) : (
          <Trouble error={detail.error} onRetry={() => void detail.refetch()} />
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

/** The boundary requests of this dispatch, above whatever tab is open. */
function Requests({ row, requests }: { row: DispatchRow; requests: readonly BoundaryRequest[] }) {
  const [denying, setDenying] = useState<string | null>(null)
  if (requests.length === 0) return null
  return (
    <div className="max-h-[40vh] shrink-0 space-y-2 overflow-y-auto border-b border-line bg-accent-wash p-3">
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
  )
}

type PageProps = { row: DispatchDetail; requests: readonly BoundaryRequest[]; tab: DispatchTab }

function Page({ row, requests, tab }: PageProps) {
  const changesetId = row.changeset?.id ?? row.id
  const changeset = useAnswer('changeset.get', { id: changesetId }, { enabled: isOpen(row.changeset?.state) })
  const { worktree, commits, inGit } = useWorktree(row)
  const state = row.changeset?.state
  const running = !isTerminal(row.status)
  const whyNot = whyNotApply(row, changeset.data)
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
      <header className="shrink-0 border-b border-line px-5 pt-3.5 tight:px-4">
        <div className="flex min-h-8 flex-wrap items-center justify-end gap-x-3 gap-y-2">
          <h1
            className="min-w-0 flex-1 basis-60 truncate text-title font-semibold tracking-tight"
            title={titleOf(row)}
          >
            <Plain>{titleOf(row)}</Plain>
          </h1>
          <Actions
            row={row}
            changeset={changeset.data}
            worktree={worktree}
            commits={
              commits.filter((each) => each.on_no_branch !== true && each.repository === undefined).length
            }
            inGit={inGit}
          />
        </div>
        <div className="mt-1.5 flex min-w-0 items-center gap-x-1.5 gap-y-1 overflow-hidden tight:flex-wrap">
          <StatusBadge row={row} />
          {state !== undefined && !(running && state === 'active') && (
            <Badge tone={changesetWords[state].tone}>{changesetWords[state].label}</Badge>
          )}
          {row.level !== null && <LevelBadge level={row.level} />}
          {row.boundary !== null &&
            (running && row.level !== 0 ? (
              <BoundaryControl row={row} boundary={row.boundary} />
            ) : (
              <BoundaryBadge boundary={row.boundary} isHeld={row.level !== 0} />
            ))}
          <Findings detail={row} />
          <span className="ml-1.5 flex min-w-24 flex-1 tight:ml-0">
            <Place row={row} worktree={worktree} />
          </span>
          <Elapsed row={row} />
        </div>
        <TabList className="mt-1.5">
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
        </TabList>
      </header>
      {whyNot !== null && (
        <p
          role="note"
          className="flex shrink-0 items-start gap-2 border-b border-line bg-sunken px-5 py-1.5 text-small text-ink-soft tight:px-4"
        >
          <Info size={13} className="mt-0.5 shrink-0" />
          {whyNot}
        </p>
      )}
      {(state === 'review' || state === 'applied') && <WaitingLanding id={changesetId} />}
      <Requests row={row} requests={requests} />
      <Tabs.Content value="output" className="flex min-h-0 flex-1 flex-col outline-none">
        <Output key={row.id} row={row} />
      </Tabs.Content>
      <Tabs.Content value="changes" className="flex min-h-0 flex-1 flex-col outline-none">
        <ChangesTab row={row} commits={commits} />
      </Tabs.Content>
      <Tabs.Content value="record" className="flex min-h-0 flex-1 flex-col outline-none">
        <Record detail={row} />
      </Tabs.Content>
    </Tabs.Root>
  )
}
