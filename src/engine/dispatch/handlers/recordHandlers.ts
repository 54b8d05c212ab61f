import { readdir } from 'node:fs/promises'
import type { Handlers } from '../../../shared/api.ts'
import { isTerminal } from '../../../shared/dispatch.ts'
import type { DispatchDiskUse } from '../../../shared/disk.ts'
import type { RepoId } from '../../../shared/ids.ts'
import type { Layout } from '../../base/paths.ts'
import { diskUseOfAll, verifyEvents } from '../../store/index.ts'
import { packOwners } from '../../changeset/index.ts'
import type { Parts } from '../parts.ts'

type RecordHandlers = Pick<Handlers, 'dispatch.spec' | 'dispatch.verify' | 'disk.use' | 'disk.keep_logs'>

async function allPackOwners(layout: Layout): Promise<ReadonlyMap<string, string>> {
  const repos = (await readdir(layout.repos).catch((): string[] => [])) as RepoId[]
  const owners = await Promise.all(repos.map((repoId) => packOwners(layout, repoId)))
  return new Map(owners.flatMap((each) => [...each]))
}

/** What the records say about themselves: proof and cost. */
export function recordHandlers({ store, layout }: Parts): RecordHandlers {
  function seenBy(use: DispatchDiskUse) {
    const id = use.id as Parameters<typeof store.dispatches.find>[0]
    const row = store.dispatches.find(id)
    const removed = store.retention.removed(id)
    return { ...use, name: row?.name ?? null, status: row?.status ?? null, removed }
  }

  return {
    'dispatch.spec': async ({ id }) => ({
      text: store.dispatches.get(store.dispatches.resolve(id)).sandboxSpecText,
    }),
    'dispatch.verify': async ({ id: reference }) => {
      const { id, repoId, lastEventHash, started_at, status } = store.dispatches.get(
        store.dispatches.resolve(reference),
      )
      const gone = store.retention.removed(id).find(({ log }) => log === 'events')
      if (gone !== undefined) {
        const problem = `the event log was removed on ${gone.removed_at}: ${gone.why}`
        return { ok: false, events: 0, problem }
      }
      if (repoId === null) return { ok: true, events: 0, problem: null }
      return verifyEvents(layout.events(repoId, id), lastEventHash, {
        hasBegun: started_at !== null,
        hasEnded: isTerminal(status),
      })
    },
    'disk.use': async () => {
      const { dispatches, shared } = await diskUseOfAll(layout.dataDir, await allPackOwners(layout))
      const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
      return {
        total: sum([...Object.values(shared), ...dispatches.map((each) => each.total)]),
        logs: sum(dispatches.map((each) => each.events + each.output)),
        logs_kept: store.retention.logsKept,
        shared,
        dispatches: dispatches.map(seenBy).sort((a, b) => b.total - a.total),
      }
    },
    'disk.keep_logs': async ({ bytes }) => {
      store.retention.keepLogs(bytes)
      return { removed: await store.retention.trim() }
    },
  }
}
