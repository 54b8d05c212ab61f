import { drizzle } from 'drizzle-orm/better-sqlite3'
import { layout } from '../base/paths.ts'
import { BoundaryRecords } from './approvals.ts'
import type { ChangesetRecords } from '../base/changesetRecords.ts'
import { ChangeFeed } from './changes.ts'
import { StoredChangesets } from './changesets.ts'
import type { StoreDatabase } from './database.ts'
import { DispatchRecords } from './dispatches.ts'
import { storeFailure } from './failures.ts'
import { InvocationMirror } from './invocations.ts'
import { Landings } from './landings.ts'
import { openDatabase } from './open.ts'
import { Retention } from './retention.ts'
import * as schema from './schema.ts'

/** The records of one data folder. Several processes may have it open at once. */
export interface Store extends AsyncDisposable {
  readonly dispatches: DispatchRecords
  readonly boundaries: BoundaryRecords
  readonly changesets: ChangesetRecords
  readonly retention: Retention
  readonly invocations: InvocationMirror
  readonly landings: Landings
  readonly database: StoreDatabase
  /** Tells which dispatches changed: our own writes at once, other processes' soon after. Returns the way out. */
  onChange(listener: (ids: readonly string[]) => void): () => void
  /** For the other record classes: call it after a commit that touched what people see of a dispatch. */
  announce(id: string): void
  close(): Promise<void>
}

export async function openStore(dataDir: string): Promise<Store> {
  const { sqlite, path } = await openDatabase(dataDir)
  const database: StoreDatabase = {
    sqlite,
    orm: drizzle(sqlite, { schema }),
    attempt: (work) => {
      try {
        return work()
      } catch (error) {
        throw storeFailure(path, error)
      }
    },
  }
  const feed = new ChangeFeed(sqlite, path)
  const announce = (id: string) => feed.wrote(id)
  const close = async () => {
    feed.close()
    sqlite.close()
  }
  return {
    dispatches: new DispatchRecords(database, announce),
    boundaries: new BoundaryRecords(database, announce),
    changesets: new StoredChangesets(database, announce),
    retention: new Retention(database, layout(dataDir)),
    invocations: new InvocationMirror(database, announce),
    landings: new Landings(database, announce),
    database,
    onChange: (listener) => feed.listen(listener),
    announce,
    close,
    [Symbol.asyncDispose]: close,
  }
}
