import { OrangeryError } from '../../shared/errors.ts'
import type { ApplyResult, Changeset, ChangesetState, Verdict } from '../../shared/changeset.ts'
import type { ChangesetSummary } from '../../shared/dispatch.ts'
import type { DispatchId } from '../../shared/ids.ts'
import type { ChangesetRecord, ChangesetRecords } from '../base/changesetRecords.ts'
import { createRepoLock } from '../base/lock.ts'
import type { Layout } from '../base/paths.ts'
import type { ThroughHolder } from '../base/throughHolder.ts'
import type { Workspace } from '../base/workspace.ts'
import { applyChangeset, recoverChangeset, undoChangeset, type ApplyContext } from './apply.ts'
import { writeBases } from './bases.ts'
import { fromText, type BytePath } from './bytePath.ts'
import { captureWorkspace } from './capture.ts'
import { diffText, type DiffText } from './diffText.ts'
import { realDisk, type Disk } from './disk.ts'
import { SavedManifests } from './saved.ts'
import { selectTargets } from './selection.ts'
import { changedFile, Decisions, findFiles, readView, type FileView, type View } from './view.ts'

export type ChangesetsOptions = {
  readonly layout: Layout
  readonly records: ChangesetRecords
  /** Names and folders the user protects on these roots, besides the built-in ones. */
  readonly protectedPaths?: (roots: readonly string[]) => Promise<readonly string[]>
  /** For the fault suite. */
  readonly disk?: Disk
}
export type Captured = {
  readonly revision: string
  readonly files: number
  readonly insertions: number
  readonly deletions: number
}
type Place = { readonly root?: string | undefined; readonly path: string; readonly hunk?: string | undefined }

export interface Changesets {
  /** Records what the agent left so far; null when it changed nothing. `final` opens the review. */
  capture(
    workspace: Workspace,
    options: { final: boolean; through?: ThroughHolder | undefined; signal?: AbortSignal | undefined },
  ): Promise<Captured | null>
  list(): Promise<ChangesetSummary[]>
  get(id: DispatchId): Promise<Changeset>
  diff(
    id: DispatchId,
    options: {
      root?: string | undefined
      path?: string | undefined
      stat?: boolean
      include_ignored?: boolean
      maxBytes?: number
    },
  ): Promise<DiffText & { revision: string }>
  decide(
    id: DispatchId,
    decision: Place & { verdict: Verdict | null; comment?: string | undefined },
    by: string,
  ): Promise<Changeset>
  apply(
    id: DispatchId,
    options: { all: boolean; include_ignored: boolean; revision?: string | undefined },
    by: string,
  ): Promise<ApplyResult>
  undo(id: DispatchId, by: string): Promise<ApplyResult>
  reject(id: DispatchId, comment: string, by: string): Promise<{ id: DispatchId; state: ChangesetState }>
  abandon(id: DispatchId, by: string): Promise<{ id: DispatchId; state: ChangesetState }>
  reopen(id: DispatchId, by: string): Promise<{ id: DispatchId; state: ChangesetState }>
  recover(): Promise<void>
}

const largestDiff = 64 * 1024 * 1024

export function createChangesets(options: ChangesetsOptions): Changesets {
  const { layout, records } = options
  const disk = options.disk ?? realDisk
  const context: ApplyContext = { layout, records, disk }
  const locks = createRepoLock(layout)
  const views = new Map<string, Promise<View>>()

  function find(id: DispatchId): ChangesetRecord {
    const record = records.find(id)
    if (record !== null) return record
    throw new OrangeryError(
      'changeset.not_found',
      `no changeset ${id}: the dispatch changed nothing or is unknown`,
      {
        kind: 'not_found',
      },
    )
  }

  function view(record: ChangesetRecord, revision = record.revision): Promise<View> {
    const key = `${record.id} ${revision}`
    let reading = views.get(key)
    if (reading === undefined) {
      reading = new SavedManifests(layout.changeset(record.repoId, record.id), disk)
        .read(revision)
        .then((manifest) => readView(layout.objects(record.repoId), revision, manifest))
      views.set(key, reading)
      reading.catch(() => views.delete(key))
      if (views.size > 8) views.delete(views.keys().next().value ?? '')
    }
    return reading
  }

  const lockOf = (record: { repoId: string }) =>
    locks.acquire(`apply-${record.repoId}`, { timeoutMs: 30_000 })

  async function get(id: DispatchId): Promise<Changeset> {
    const record = find(id)
    const { manifest, files, insertions, deletions, revision } = await view(record)
    const decisions = new Decisions(records.decisions(id))
    return {
      id,
      state: record.state,
      roots: manifest.roots.map((root) => root.path),
      revision,
      files: files.map((file) => changedFile(file, decisions)),
      insertions,
      deletions,
      dropped: manifest.dropped,
      transitions: [...records.transitions(id)],
    }
  }

  function move(
    id: DispatchId,
    from: readonly ChangesetState[],
    to: ChangesetState,
    by: string,
    why: string,
  ) {
    const record = find(id)
    if (!records.transition(id, from, to, by, why)) throw wrongState(find(id), to)
    return { id: record.id, state: to }
  }

  return {
    async capture(workspace, { final, through, signal }) {
      if (workspace.strategy === 'none') return null
      await using _lock = await locks.acquire(`capture-${workspace.id}`, { timeoutMs: 60_000 })
      const folder = layout.changeset(workspace.repoId, workspace.id)
      const captured = await captureWorkspace(workspace, {
        disk,
        layout,
        protectedPaths: (await options.protectedPaths?.(workspace.roots.map(({ path }) => path))) ?? [],
        through,
        signal,
        final,
      })
      const known = records.find(workspace.id)
      if (captured.manifest.entries.length === 0 && records.applies(workspace.id).length === 0) {
        // Everything was put back: there is nothing to review and nothing to lose.
        if (final && known !== null) records.forget(workspace.id)
        if (final || known === null) return null
      }
      const saved = new SavedManifests(folder, disk)
      const revision = await saved.write(captured.manifest)
      await writeBases(folder, captured.bases, disk)
      const { files, insertions, deletions } = await readView(
        layout.objects(workspace.repoId),
        revision,
        captured.manifest,
      )
      const at = new Date().toISOString()
      const counts = { revision, files: files.length, insertions, deletions }
      const turn =
        1 +
        records.transitions(workspace.id).filter((each) => each.from !== null && each.to === 'active').length
      records.capture(
        { id: workspace.id, repoId: workspace.repoId, workspace, updatedAt: at, ...counts },
        { revision, at, final, turn },
        'agent',
      )
      if (final) records.transition(workspace.id, ['active'], 'review', 'agent', 'the agent ended')
      return counts
    },

    async list() {
      return records.list().map(({ id, state, files, insertions, deletions }) => ({
        id,
        state,
        files,
        insertions,
        deletions,
      }))
    },
    get,

    async diff(id, { root, path, stat = false, include_ignored = false, maxBytes = largestDiff }) {
      const record = find(id)
      const current = await view(record)
      const files =
        path === undefined
          ? current.files.filter((file) => include_ignored || !file.entry.ignored)
          : chosen(current, { root, path })
      const pairs = files.flatMap(({ entry, from }) => (from === null ? [entry] : [from, entry]))
      const { roots } = current.manifest
      const text = await diffText(layout.objects(record.repoId), roots, pairs, { stat, maxBytes })
      return { revision: current.revision, ...text }
    },

    async decide(id, { verdict, comment, ...place }, by) {
      const record = find(id)
      const current = await view(record)
      const at = new Date().toISOString()
      const files = chosen(current, place)
      for (const file of files) {
        const { root, path } = file.entry
        const hunks =
          place.hunk === undefined ? file.hunks : file.hunks.filter((hunk) => hunk.id === place.hunk)
        if (place.hunk !== undefined && hunks.length === 0) {
          throw new OrangeryError('changeset.no_such_hunk', `no hunk ${place.hunk} in ${place.path}`, {
            kind: 'not_found',
            hint: 'It may have changed since: look at the changeset again.',
          })
        }
        const common = { root, path, verdict, by, at, anchor: file.anchor }
        records.decide(id, [
          ...hunks.map((hunk) => ({ ...common, hunk: hunk.id })),
          ...(place.hunk === undefined ? [{ ...common, hunk: null }] : []),
        ])
        if (comment !== undefined) {
          records.comment(id, {
            root,
            path,
            hunk: place.hunk ?? null,
            anchor: file.anchor,
            text: comment,
            by,
            at,
          })
        }
      }
      records.markReviewed(id, by, current.revision, at)
      return get(id)
    },

    async apply(id, { all, include_ignored, revision }, by) {
      await using _lock = await lockOf(find(id))
      await recoverChangeset(context, find(id))
      const record = find(id)
      if (record.state !== 'review' && record.state !== 'applied') throw wrongState(record, 'applied')
      if (revision !== undefined && revision !== record.revision) throw movedOn(record)
      const current = await view(record)
      const selection = { all, includeIgnored: include_ignored }
      if (all) {
        const at = new Date().toISOString()
        const { approved } = selectTargets(current, new Decisions(records.decisions(id)), selection)
        for (const { file, hunks } of approved) {
          const common = {
            root: file.entry.root,
            path: file.entry.path,
            anchor: file.anchor,
            verdict: 'approve',
            by,
            at,
          } as const
          const whole = hunks.length === file.hunks.length ? [{ ...common, hunk: null }] : []
          records.decide(id, [...hunks.map((hunk) => ({ ...common, hunk: hunk.id })), ...whole])
        }
      }
      return await applyChangeset(context, record, current, selection, by)
    },

    async undo(id, by) {
      await using _lock = await lockOf(find(id))
      await recoverChangeset(context, find(id))
      const record = find(id)
      return await undoChangeset(context, record, await view(record), by)
    },

    reject: async (id, comment, by) => move(id, ['review', 'active'], 'rejected', by, comment),
    abandon: async (id, by) => move(id, ['review', 'active', 'rejected'], 'abandoned', by, 'abandoned'),
    reopen: async (id, by) =>
      move(id, ['rejected', 'abandoned', 'review', 'applied'], 'active', by, 'rework'),

    async recover() {
      for (const record of records.list()) {
        await using _lock = await lockOf(record)
        await recoverChangeset(context, record)
      }
    },
  }
}

function chosen(view: View, { root, path }: Place): readonly FileView[] {
  const files = findFiles(view, pathOf(path), root)
  if (files.length > 0) return files
  throw new OrangeryError('changeset.no_such_path', `no change at ${path} in this changeset`, {
    kind: 'not_found',
  })
}
function pathOf(text: string): BytePath {
  return fromText(text.replace(/^\.\//, '').replace(/\/$/, ''))
}

function wrongState(record: ChangesetRecord, to: ChangesetState): OrangeryError {
  const hints: Partial<Record<ChangesetState, string>> = {
    active: 'Its agent still works on it: wait for it or stop it.',
    rejected: 'It was sent back: let the agent rework it first.',
    abandoned: 'It was abandoned: restore it first.',
  }
  const hint = hints[record.state]
  return new OrangeryError(
    'changeset.wrong_state',
    `changeset ${record.id} is ${record.state}: it cannot become ${to}`,
    { kind: 'busy', ...(hint === undefined ? {} : { hint }) },
  )
}

function movedOn(record: ChangesetRecord): OrangeryError {
  return new OrangeryError(
    'changeset.moved',
    `changeset ${record.id} has changed since it was reviewed: it is at ${record.revision.slice(0, 12)} now`,
    { kind: 'busy', hint: 'Look at what changed and decide again.' },
  )
}
