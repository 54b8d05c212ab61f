import { History, RefreshCw } from 'lucide-react'
import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import type { Changeset, ChangedFile, Verdict } from '../../shared/changeset.ts'
import type { AgentCommit } from '../../shared/invocation.ts'
import { Button } from '../design/Button.tsx'
import { Reading } from '../design/Section.tsx'
import { useShownTheme } from '../design/theme.ts'
import { useKeys } from '../shell/useKeys.ts'
import { Plain } from '../text/Plain.tsx'
import type { DiffFile, DiffLayout, DiffTarget } from './DiffView.tsx'
import { FileHeader } from './FileHeader.tsx'
import { FileList } from './FileList.tsx'
import { HunkBar } from './HunkBar.tsx'
import { isInSight } from './inSight.ts'
import {
  decisionOf,
  inReviewOrder,
  keyOf,
  placeOf,
  rootNames,
  startsCollapsed,
  stepFile,
  stepHunk,
  tallyOf,
  type Caret,
  type FileKey,
} from './model.ts'
import { Notices } from './Notices.tsx'
import { withoutEndNotes } from './patch.ts'
import { commonOrigin, originOf, originWords } from './provenance.ts'
import { ReviewBar, type Shown } from './ReviewBar.tsx'
import { useDiffs } from './useDiffs.ts'
import { useReview } from './useReview.ts'

// The viewer and its languages are most of the window's weight; whoever only watches output never loads them.
const loadDiffView = async () => ({ default: (await import('./DiffView.tsx')).DiffView })
const DiffView = lazy(loadDiffView)
const ScopedDiff = lazy(async () => ({ default: (await import('./ScopedDiff.tsx')).ScopedDiff }))
const InterDiff = lazy(async () => ({ default: (await import('./InterDiff.tsx')).InterDiff }))
const Commits = lazy(async () => ({ default: (await import('./Commits.tsx')).Commits }))
// It comes while nobody waits for it.
window.requestIdleCallback(() => void loadDiffView(), { timeout: 3_000 })

const layoutKey = 'orangery.diff-layout'
const storedLayout = (): DiffLayout => (localStorage.getItem(layoutKey) === 'split' ? 'split' : 'unified')

/** What is being read stays still while the agent goes on; newer content waits until asked for. */
function useFrozen(latest: Changeset): { steady: Changeset; movedFiles: number; refresh(): void } {
  const [frozen, setFrozen] = useState(latest)
  // What a person did to it (apply, undo, send back) is no news to be held back; only the agent's is.
  const last = latest.transitions.at(-1)
  const isDecided = latest.transitions.length !== frozen.transitions.length && last?.by !== 'agent'
  if (isDecided) setFrozen(latest)
  const steady = latest.revision === frozen.revision ? latest : frozen
  const movedFiles = useMemo(() => {
    if (latest.revision === frozen.revision) return 0
    const before = new Map(frozen.files.map((file) => [keyOf(file), file.sha256_after]))
    const moved = latest.files.filter((file) => before.get(keyOf(file)) !== file.sha256_after).length
    const after = new Set(latest.files.map(keyOf))
    return moved + frozen.files.filter((file) => !after.has(keyOf(file))).length
  }, [latest, frozen])
  return { steady, movedFiles, refresh: () => setFrozen(latest) }
}

/** What a key has just moved to is drawn a moment later; nobody scrolls away from it sooner. */
const arrivingMs = 500

type ChangesProps = { id: string; latest: Changeset; commits: readonly AgentCommit[] }

export function Changes({ id, latest, commits }: ChangesProps) {
  const { steady: changeset, movedFiles, refresh } = useFrozen(latest)
  const moved = changeset.revision !== latest.revision
  const editable = changeset.state === 'review' || changeset.state === 'active'
  const theme = useShownTheme()
  const review = useReview(id, changeset)
  const diffs = useDiffs(id, changeset)
  const findRef = useRef<HTMLInputElement>(null)
  const paneRef = useRef<HTMLDivElement>(null)
  const movedAt = useRef(-Infinity)
  const [layout, setLayout] = useState<DiffLayout>(storedLayout)
  const [find, setFind] = useState('')
  const [shown, setShown] = useState<Shown>('all')
  const [listing, setListing] = useState(false)
  const [caret, setCaret] = useState<Caret | null>(null)
  const [target, setTarget] = useState<DiffTarget | null>(null)
  const [toggled, setToggled] = useState<ReadonlySet<FileKey>>(new Set())
  const [comment, setComment] = useState<(Caret & { whole: boolean }) | null>(null)
  const drafts = useRef(new Map<string, string>())
  const [since, setSince] = useState<ChangedFile | null>(null)
  const [, redraw] = useState(0)

  const ordered = useMemo(() => inReviewOrder(changeset.files), [changeset.files])
  const files = useMemo(() => {
    const wanted = find.toLowerCase()
    return wanted === '' ? ordered : ordered.filter((file) => file.path.toLowerCase().includes(wanted))
  }, [ordered, find])
  // Ignored files are thousands as a rule; they are listed, and shown one by one when picked.
  const [picked, setPicked] = useState<ReadonlySet<FileKey>>(new Set())
  const reading = useMemo(
    () => files.filter((file) => !file.ignored || picked.has(keyOf(file))),
    [files, picked],
  )
  const noFile = find === '' ? 'No file is left here.' : 'No file matches.'
  const byKey = useMemo(() => new Map(reading.map((file) => [keyOf(file), file])), [reading])
  const names = useMemo(() => rootNames(changeset.roots), [changeset.roots])
  const tally = useMemo(() => tallyOf(changeset), [changeset])
  const origin = useMemo(() => commonOrigin(changeset.files), [changeset.files])
  const isCollapsed = (file: ChangedFile) => startsCollapsed(file) !== toggled.has(keyOf(file))

  const diffFiles: DiffFile[] = reading.map((file) => {
    const patch = diffs.patchOf(file)
    return {
      key: keyOf(file),
      name: file.path,
      // A link's target never ends with a newline; saying so at each one says nothing.
      patch: file.kind === 'symlink' && patch != null ? withoutEndNotes(patch) : (patch ?? null),
      collapsed: isCollapsed(file) || patch === undefined || patch === null,
    }
  })
  const signature = diffFiles
    .map((file) => `${file.key}${file.patch?.length ?? -1}${file.collapsed}`)
    .join('\0')
  // oxlint-disable-next-line react/exhaustive-deps -- the signature stands for the list; a new list would redraw every file
  const steadyFiles = useMemo(() => diffFiles, [signature, changeset.revision])

  const toggle = useCallback(
    (file: ChangedFile) => {
      if (diffs.patchOf(file) === undefined) diffs.load(file)
      setToggled((former) => {
        const next = new Set(former)
        if (!next.delete(keyOf(file))) next.add(keyOf(file))
        return next
      })
    },
    [diffs],
  )

  const moveTo = useCallback((next: Caret | null) => {
    if (next === null) return
    movedAt.current = performance.now()
    setListing(false)
    setShown('all')
    setCaret(next)
    setTarget({ key: next.file, hunk: next.hunk })
  }, [])

  const select = (key: FileKey) => {
    setPicked((former) => (former.has(key) ? former : new Set(former).add(key)))
    moveTo({ file: key, hunk: 0 })
  }
  const decide = (file: ChangedFile, hunk: number | null, verdict: Verdict | null, text?: string) => {
    review.decide(file, hunk, verdict, text)
    setComment(null)
  }
  /** What the keys mean: where the caret stands, if what it stands on is shown. */
  const isSeen = (file: ChangedFile, hunk: number) => {
    if (shown !== 'all' || listing) return false
    if (performance.now() - movedAt.current < arrivingMs) return true
    return isInSight(paneRef.current, isCollapsed(file) ? null : (file.hunks[hunk]?.header ?? null))
  }
  const decideHere = (verdict: Verdict) => {
    const at = caret !== null && byKey.has(caret.file) ? caret : null
    const file = at === null ? undefined : byKey.get(at.file)
    // The first key shows what it means, the next one decides.
    if (at === null || file === undefined) return moveTo(stepHunk(reading, null, 1))
    if (!isSeen(file, at.hunk)) return moveTo(at)
    if (!editable || file.refused !== null) return
    const whole = file.hunks.length === 0
    if (verdict === 'rework') return setComment({ ...at, whole })
    decide(file, whole ? null : at.hunk, verdict)
    moveTo(stepHunk(reading, at, 1) ?? at)
  }
  const changeLayout = (next: DiffLayout) => {
    localStorage.setItem(layoutKey, next)
    setLayout(next)
  }
  useKeys({
    j: () => moveTo(stepHunk(reading, caret, 1)),
    k: () => moveTo(stepHunk(reading, caret, -1)),
    l: () => moveTo(stepFile(reading, caret, 1)),
    h: () => moveTo(stepFile(reading, caret, -1)),
    a: () => decideHere('approve'),
    x: () => decideHere('reject'),
    r: () => decideHere('rework'),
    u: () => moveTo(review.undo(changeset.files)),
    v: () => changeLayout(layout === 'split' ? 'unified' : 'split'),
    '/': () => findRef.current?.focus(),
  })
  useEffect(() => {
    setTarget((former) => (former === null ? null : { ...former }))
  }, [layout])

  const commentField = (file: ChangedFile, hunk: number | null) => {
    const name = `${keyOf(file)}\n${hunk ?? ''}`
    return {
      draft: drafts.current.get(name) ?? '',
      onDraft: (text: string) => {
        drafts.current.set(name, text)
        redraw((count) => count + 1)
      },
      onSend: (text: string) => {
        drafts.current.delete(name)
        decide(file, hunk, 'rework', text)
      },
      onCancel: () => setComment(null),
    }
  }

  const renderHeader = (key: string) => {
    const file = byKey.get(key)
    if (file === undefined) return null
    return (
      <FileHeader
        file={file}
        rootName={names.get(file.root) ?? ''}
        collapsed={isCollapsed(file)}
        loaded={diffs.patchOf(file) !== undefined}
        editable={editable}
        current={caret?.file === key}
        onToggle={() => toggle(file)}
        onDecide={(verdict) => decide(file, null, verdict)}
        onSince={() => setSince(file)}
        onRework={() => {
          setCaret({ file: key, hunk: 0 })
          setComment({ file: key, hunk: 0, whole: true })
        }}
      />
    )
  }
  const renderHunk = (key: string, hunk: number) => {
    const file = byKey.get(key)
    if (file === undefined) return null
    const open = comment !== null && comment.file === key && comment.hunk === hunk
    return (
      <HunkBar
        header={file.hunks[hunk]?.header ?? ''}
        index={hunk}
        count={file.hunks.length}
        decision={decisionOf(file, hunk)}
        current={caret?.file === key && caret.hunk === hunk}
        editable={editable && file.refused === null && file.hunks[hunk] !== undefined}
        provenance={originOf(file, hunk, origin)}
        comments={(file.comments ?? []).filter(
          (said) => said.hunk === file.hunks[hunk]?.id || (said.hunk === null && hunk === 0),
        )}
        comment={open ? commentField(file, comment.whole ? null : hunk) : null}
        onDecide={(verdict) => {
          setCaret({ file: key, hunk })
          decide(file, hunk, verdict)
        }}
        onRework={() => {
          setCaret({ file: key, hunk })
          setComment({ file: key, hunk, whole: false })
        }}
      />
    )
  }
  const stableHeader = useLatest(renderHeader, [byKey, names, toggled, caret, editable, diffs])
  const stableHunk = useLatest(renderHunk, [
    byKey,
    caret,
    comment,
    editable,
    drafts.current.size,
    comment && [...drafts.current.values()].join(),
  ])

  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <ReviewBar
        tally={editable ? tally : null}
        insertions={changeset.insertions}
        deletions={changeset.deletions}
        layout={layout}
        onLayout={changeLayout}
        find={find}
        onFind={setFind}
        findRef={findRef}
        shown={shown}
        onShown={setShown}
        commits={commits.length}
        onFiles={() => setListing(!listing)}
      />
      <Notices changeset={latest} />
      {moved && (
        <div className="flex shrink-0 items-center gap-3 border-b border-line bg-live-wash px-4 py-1.5 text-small text-live">
          <span className="flex-1">
            {movedFiles === 1 ? '1 file changed' : `${movedFiles} files changed`} since you opened this
            review.
          </span>
          <Button size="small" icon={<RefreshCw size={12} />} onClick={refresh}>
            Refresh
          </Button>
        </div>
      )}
      <div className="flex min-h-0 flex-1">
        <div
          className={`flex w-64 shrink-0 flex-col border-r border-line pt-1 max-[64rem]:w-52 tight:border-r-0 ${listing ? 'tight:w-full' : 'tight:hidden'} ${shown === 'commits' ? 'hidden' : ''}`}
        >
          <FileList
            files={files}
            current={caret?.file ?? null}
            roots={names}
            empty={noFile}
            onSelect={select}
          />
          {origin !== null && (
            <p
              className="flex shrink-0 items-center gap-1.5 border-t border-line px-3 py-2 text-micro text-ink-faint"
              title={
                origin.certain
                  ? `All of it was written by ${origin.title}`
                  : `All of it was likely written by ${origin.title}: it fits in time`
              }
            >
              <History size={12} className="shrink-0" />
              <span className="truncate">
                <Plain>{originWords(origin)}</Plain>
              </span>
            </p>
          )}
          {changeset.dropped.length > 0 && (
            <details className="shrink-0 border-t border-line px-3 py-2 text-small text-ink-faint">
              <summary>{changeset.dropped.length} left behind</summary>
              <ul className="selectable mt-1 max-h-32 space-y-1 overflow-y-auto">
                {changeset.dropped.map((entry) => (
                  <li key={`${entry.root}/${entry.path}: ${entry.why}`} className="[overflow-wrap:anywhere]">
                    <span className="font-mono text-micro text-ink-soft">
                      <Plain>{(names.get(entry.root) ?? '') + entry.path}</Plain>
                    </span>{' '}
                    <Plain>{entry.why}</Plain>
                  </li>
                ))}
              </ul>
            </details>
          )}
        </div>
        <div ref={paneRef} className={`min-w-0 flex-1 ${listing ? 'tight:hidden' : ''}`}>
          <Suspense
            fallback={
              <div className="p-5">
                <Reading what="Reading the changes…" />
              </div>
            }
          >
            {shown === 'commits' ? (
              <Commits id={id} commits={commits} layout={layout} />
            ) : shown !== 'all' ? (
              <ScopedDiff id={id} scope={shown} revision={changeset.revision} layout={layout} />
            ) : reading.length === 0 ? (
              <p className="grid h-full place-items-center p-6 text-center text-ink-faint">
                {files.length === 0 ? noFile : 'Only files that git ignores. Pick one to read it.'}
              </p>
            ) : (
              <DiffView
                files={steadyFiles}
                layout={layout}
                theme={theme}
                target={target}
                renderHeader={stableHeader}
                renderHunk={stableHunk}
              />
            )}
          </Suspense>
        </div>
      </div>
      {since !== null && (
        <Suspense fallback={null}>
          <InterDiff id={id} place={placeOf(since)} layout={layout} onClose={() => setSince(null)} />
        </Suspense>
      )}
    </div>
  )
}

/** A new function only when what it reads has changed; the viewer redraws its slots with every new one. */
function useLatest<A extends unknown[], R>(
  act: (...args: A) => R,
  reads: readonly unknown[],
): (...args: A) => R {
  // oxlint-disable-next-line react/exhaustive-deps -- the caller names what is read
  return useCallback(act, reads)
}
