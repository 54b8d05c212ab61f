import { parsePatchFiles } from '@pierre/diffs'
import {
  CodeView,
  WorkerPoolContextProvider,
  type CodeViewHandle,
  type CodeViewItem,
  type CodeViewReactOptions,
  type DiffLineAnnotation,
  type FileDiffMetadata,
} from '@pierre/diffs/react'
// oxlint-disable-next-line import/default -- the bundler gives a worker a default export
import DiffWorker from '@pierre/diffs/worker/worker.js?worker'
import { useCallback, useEffect, useMemo, useRef, type ReactNode } from 'react'
import { codeThemes } from './codeTheme.ts'
import { visiblePatch } from './patch.ts'
import './diff.css'

export type DiffFile = {
  readonly key: string
  readonly name: string
  /** Null: nothing to show below the header (binary, not loaded, no change of content). */
  readonly patch: string | null
  readonly collapsed: boolean
}

type Mark = { readonly hunk: number }
export type DiffLayout = 'unified' | 'split'
/** Where to scroll; a new object scrolls again. */
export type DiffTarget = { readonly key: string; readonly hunk: number | null }

type DiffViewProps = {
  files: readonly DiffFile[]
  layout: DiffLayout
  theme: 'light' | 'dark'
  target: DiffTarget | null
  renderHeader(key: string): ReactNode
  renderHunk(key: string, hunk: number): ReactNode
  onVisible?(key: string): void
}

// Colouring costs by length and helps least where there is most of it.
const highlightCharacters = 300_000
const workers = Math.max(1, Math.min(3, (navigator.hardwareConcurrency || 2) - 1))

const poolOptions = { workerFactory: () => new DiffWorker(), poolSize: workers }
const highlighterOptions = { theme: codeThemes }

const emptyDiff = (name: string): FileDiffMetadata => ({
  name,
  type: 'change',
  hunks: [],
  splitLineCount: 0,
  unifiedLineCount: 0,
  isPartial: true,
  deletionLines: [],
  additionLines: [],
  deletionCharacterCount: 0,
  additionCharacterCount: 0,
})

// Names what was parsed for the workers' cache; a patch is parsed once.
let parsedSoFar = 0

function parse(file: DiffFile): FileDiffMetadata {
  if (file.patch === null) return emptyDiff(file.name)
  const [parsed] = parsePatchFiles(visiblePatch(file.patch), { cacheKeyPrefix: String(parsedSoFar++) })
  const diff = parsed?.files[0]
  if (diff === undefined) return emptyDiff(file.name)
  const characters = diff.additionCharacterCount + diff.deletionCharacterCount
  return characters > highlightCharacters
    ? { ...diff, name: file.name, lang: 'text' }
    : { ...diff, name: file.name }
}

/** Each hunk is decided on below its last line: one has read it by then. */
function marksOf(diff: FileDiffMetadata): DiffLineAnnotation<Mark>[] {
  return diff.hunks.map((hunk, index) =>
    hunk.additionCount > 0
      ? {
          side: 'additions',
          lineNumber: hunk.additionStart + hunk.additionCount - 1,
          metadata: { hunk: index },
        }
      : {
          side: 'deletions',
          lineNumber: hunk.deletionStart + hunk.deletionCount - 1,
          metadata: { hunk: index },
        },
  )
}

/** The one place that knows the diff viewer. Parsing happens here, comparing never does: that is the engine's. */
export function DiffView({
  files,
  layout,
  theme,
  target,
  renderHeader,
  renderHunk,
  onVisible,
}: DiffViewProps) {
  const view = useRef<CodeViewHandle<Mark, undefined>>(null)
  const made = useRef(new Map<string, { from: DiffFile; item: CodeViewItem<Mark> }>())

  const items = useMemo(() => {
    const next = new Map<string, { from: DiffFile; item: CodeViewItem<Mark> }>()
    const list = files.map((file): CodeViewItem<Mark> => {
      const former = made.current.get(file.key)
      const same = former?.from.patch === file.patch && former.from.name === file.name
      if (former !== undefined && same && former.from.collapsed === file.collapsed) {
        next.set(file.key, former)
        return former.item
      }
      const diff = same && former?.item.type === 'diff' ? former.item.fileDiff : parse(file)
      const item: CodeViewItem<Mark> = {
        id: file.key,
        type: 'diff',
        fileDiff: diff,
        annotations: marksOf(diff),
        collapsed: file.collapsed,
        version: (former?.item.version ?? 0) + 1,
      }
      next.set(file.key, { from: file, item })
      return item
    })
    made.current = next
    return list
  }, [files])

  const options = useMemo(
    (): CodeViewReactOptions<Mark, undefined> => ({
      theme: highlighterOptions.theme,
      themeType: theme,
      diffStyle: layout,
      diffIndicators: 'bars',
      hunkSeparators: 'line-info-basic',
      lineDiffType: 'word-alt',
      // Half a window has no room for long lines, and scrolling sideways moves only one of the halves.
      overflow: layout === 'split' ? 'wrap' : 'scroll',
      stickyHeaders: true,
      tokenizeMaxLineLength: 2_000,
      maxLineDiffLength: 2_000,
      // The themes bring a background of their own; the code lies on the same pane as the rest.
      unsafeCSS: ':host { --diffs-light-bg: var(--pane); --diffs-dark-bg: var(--pane) }',
      itemMetrics: { diffHeaderHeight: 40 },
      layout: { paddingTop: 0, paddingBottom: 240, gap: 12 },
    }),
    [layout, theme],
  )

  useEffect(() => {
    if (target === null) return
    const item = made.current.get(target.key)?.item
    if (item === undefined) return
    const hunk = item.type === 'diff' && target.hunk !== null ? item.fileDiff.hunks[target.hunk] : undefined
    // The first hunk is at the top of its file, and with it the file's name.
    if (hunk === undefined || target.hunk === 0 || item.collapsed) {
      view.current?.scrollTo({ type: 'item', id: target.key, align: 'start', behavior: 'instant' })
      return
    }
    const added = hunk.additionCount > 0
    view.current?.scrollTo({
      type: 'line',
      id: target.key,
      lineNumber: added ? hunk.additionStart : hunk.deletionStart,
      side: added ? 'additions' : 'deletions',
      align: 'start',
      offset: 72,
      behavior: 'instant',
    })
  }, [target])

  const header = useCallback((item: CodeViewItem<Mark>) => renderHeader(item.id), [renderHeader])
  const annotation = useCallback(
    (mark: { metadata?: Mark }, _diff: unknown, item: { id: string }) =>
      renderHunk(item.id, mark.metadata?.hunk ?? 0),
    [renderHunk],
  )
  const onScroll = useCallback(
    (top: number) => {
      const instance = view.current?.getInstance()
      if (instance === undefined || onVisible === undefined) return
      for (const { id } of instance.getRenderedItems()) {
        const from = instance.getTopForItem(id)
        if (from !== undefined && from <= top + 80) onVisible(id)
      }
    },
    [onVisible],
  )

  return (
    <WorkerPoolContextProvider poolOptions={poolOptions} highlighterOptions={highlighterOptions}>
      <CodeView<Mark>
        ref={view}
        items={items}
        options={options}
        className="diff-view selectable"
        renderCustomHeader={header}
        renderAnnotation={annotation}
        onScroll={onScroll}
      />
    </WorkerPoolContextProvider>
  )
}
