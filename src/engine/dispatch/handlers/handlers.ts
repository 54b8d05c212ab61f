import { readdir, stat } from 'node:fs/promises'
import { homedir, platform } from 'node:os'
import { resolve } from 'node:path'
import type { Handlers } from '../../../shared/api.ts'
import type { ApplyResult } from '../../../shared/changeset.ts'
import { isTerminal } from '../../../shared/dispatch.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { gitMissing } from '../../base/git.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import type { Orphan } from '../../../shared/invocation.ts'
import { loadCards } from '../../agents/index.ts'
import { doctor } from '../../sandbox/index.ts'
import { readEvents, type StoredDispatch } from '../../store/index.ts'
import { boundaryHandlers } from './boundaryHandlers.ts'
import { killFamily } from '../supervise/kill.ts'
import { landingHandlers, landWhenIdle, undoLanding, waitsFor } from '../landing/landings.ts'
import { captureLate } from '../record/lateCapture.ts'
import { withLeftBehind } from './leftBehind.ts'
import { readOutput } from '../supervise/output.ts'
import type { Parts } from '../parts.ts'
import { preflight, prepare } from '../prepare/prepare.ts'
import { expandRules } from '../prepare/presets.ts'
import { reconcile } from '../recover/reconcile.ts'
import { recordHandlers } from './recordHandlers.ts'
import { reviewHandlers } from './reviewHandlers.ts'
import { rework, reworkOutputs } from '../prepare/rework.ts'
import { speakTo } from '../supervise/speak.ts'
import { startJob } from '../prepare/startJob.ts'
import type { Supervisors } from '../supervise/supervisors.ts'
import { version } from '../version.ts'
import { whileLanding } from '../landing/whileLanding.ts'
import { abandonChangeset, rejectChangeset, workspaceHandlers } from './workspaceHandlers.ts'

export type HostKind = 'desktop' | 'browser' | 'command-line'

/** The engine's side of the contract: finds the dispatch, asks the right station, says what came of it. */
export function createHandlers(
  parts: Parts,
  supervisors: Supervisors,
  host: HostKind,
  reconciled: () => Promise<Orphan[]>,
): Handlers {
  const { store, changesets, layout } = parts
  const find = (reference: string): DispatchId => store.dispatches.resolve(reference)
  /** A later turn works on the changeset of the first. */
  const findChangeset = (reference: string): DispatchId => store.changesets.changesetOf(find(reference))

  /** A dispatch that has files on disk; one that failed preflight has none. */
  function started(id: DispatchId): StoredDispatch & { repoId: NonNullable<StoredDispatch['repoId']> } {
    const dispatch = store.dispatches.get(id)
    if (dispatch.repoId === null) {
      throw new OrangeryError('dispatch.never_started', `${id}: it never started`, {
        kind: 'not_found',
        hint: 'See why with `orangery dispatch status`.',
      })
    }
    return dispatch as ReturnType<typeof started>
  }
  const hasEnded = (id: DispatchId) => isTerminal(store.dispatches.get(id).status)

  /** Nothing has happened yet, and what it waits for. */
  async function waitingFor(id: DispatchId): Promise<ApplyResult> {
    const { state } = await changesets.get(id)
    return { id, state, applied: [], skipped: [], waits_for: await waitsFor(parts, id) }
  }

  return {
    ...recordHandlers(parts),
    'host.info': async () => ({
      version,
      data_dir: layout.dataDir,
      platform: platform(),
      home: homedir(),
      host,
    }),
    'host.doctor': async () => {
      const [report, orphans] = await Promise.all([
        doctor(layout.dataDir),
        // That git is missing is among what the report says; what belongs to nothing cannot be told without it.
        reconcile(parts, { patient: true }).catch((error: unknown) => {
          if (error instanceof OrangeryError && error.code === gitMissing) return undefined
          throw error
        }),
      ])
      return orphans === undefined ? report : { ...report, orphans }
    },
    'host.directories': async ({ path }) => {
      const full = resolve(path.replace(/^~(?=\/|$)/, homedir()))
      const exists = await stat(full).then(
        (facts) => facts.isDirectory(),
        () => false,
      )
      const entries = exists ? await readdir(full, { withFileTypes: true }).catch(() => []) : []
      const folders = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name)
      return { path: full, exists, entries: folders.sort().slice(0, 500) }
    },
    'agent.cards': () => loadCards(parts.configDir),
    ...workspaceHandlers(parts, reconciled),
    ...landingHandlers(parts, find),

    'outputs.expand': (input) => expandRules(parts, input),
    'dispatch.preflight': (input) => preflight(parts, input),
    'dispatch.spawn': async (input) => {
      const job = await prepare(parts, input)
      await startJob(parts, supervisors, job)
      return { id: job.id, notes: [...job.notes] }
    },
    'dispatch.list': async (options) => store.dispatches.list(options),
    'dispatch.get': async ({ id }) => detail(store.dispatches.get(find(id))),
    'dispatch.kill': async ({ id }, { by }) => {
      const found = find(id)
      await killFamily(parts, found, by)
      return { id: found }
    },
    'dispatch.input': async ({ id, data }) => {
      await speakTo(parts, find(id), { op: 'input', data: Buffer.from(data).toString('base64') })
      return {}
    },
    'dispatch.resize': async ({ id, columns, rows }) => {
      await speakTo(parts, find(id), { op: 'resize', columns, rows })
      return {}
    },
    'dispatch.events': async function* ({ id, after, follow }, signal) {
      const dispatch = started(find(id))
      yield* readEvents(layout.events(dispatch.repoId, dispatch.id), {
        after,
        follow,
        signal,
        ended: () => hasEnded(dispatch.id),
      })
    },
    'dispatch.output': async function* ({ id, from, follow }, signal) {
      const dispatch = started(find(id))
      const ended = () => hasEnded(dispatch.id)
      yield* readOutput(layout.output(dispatch.repoId, dispatch.id), { from, follow, signal, ended })
    },

    'changeset.list': () => changesets.list(),
    'changeset.get': async ({ id }) => {
      await captureLate(parts, find(id))
      return withLeftBehind(parts, await changesets.get(findChangeset(id)))
    },
    'changeset.diff': ({ id, ...options }, { by }) => changesets.diff(findChangeset(id), options, by),
    'changeset.decide': async ({ id, ...decision }, { by }) =>
      withLeftBehind(parts, await changesets.decide(findChangeset(id), decision, by)),
    'changeset.apply': async ({ id: reference, when, ...options }, { by }) => {
      const id = findChangeset(reference)
      const makesCommit = options.commit !== undefined
      if (when === 'now')
        return whileLanding(parts, id, () => changesets.apply(id, options, by), { makesCommit })
      return (await landWhenIdle(parts, id, { kind: 'apply', ...options }, by)) ?? waitingFor(id)
    },
    'changeset.undo': async ({ id: reference, when, last }, { by }) => {
      const id = findChangeset(reference)
      if (when === 'now') return undoLanding(parts, id, { last }, by)
      return (await landWhenIdle(parts, id, { kind: 'undo', last }, by)) ?? waitingFor(id)
    },
    'changeset.reject': ({ id, comment }, { by }) => rejectChangeset(parts, findChangeset(id), comment, by),
    'changeset.abandon': ({ id }, { by }) => abandonChangeset(parts, findChangeset(id), by),

    ...boundaryHandlers(parts, find),
    ...reviewHandlers(parts, findChangeset),
    'changeset.rework_outputs': ({ id }) => reworkOutputs(parts, findChangeset(id)),
    'changeset.rework': ({ id, ...input }, { by }) =>
      rework(parts, supervisors, findChangeset(id), input, by),

    changes: async function* (_input, signal) {
      let pending: string[] = []
      let wake: () => void = () => {}
      const stop = store.onChange((ids) => {
        pending.push(...ids)
        wake()
      })
      signal.addEventListener('abort', () => wake())
      try {
        while (!signal.aborted) {
          if (pending.length === 0) {
            await new Promise<void>((resolve) => {
              wake = resolve
            })
          }
          const ids = [...new Set(pending)]
          pending = []
          if (ids.length > 0) yield { ids }
        }
      } finally {
        stop()
      }
    },
  }
}

/** What people may see of a stored dispatch. */
function detail({
  repoId: _r,
  supervisorPid: _p,
  supervisorStartTicks: _t,
  lastEventHash: _h,
  sandboxSpecText: _s,
  ...shown
}: StoredDispatch) {
  return shown.level === null ? shown : { ...shown, boundary_enforced: shown.level !== 0 }
}
