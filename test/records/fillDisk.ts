// Runs in a mount namespace of its own, on a disk of 3 MiB: fills it, makes room again, and looks what was lost.
import Sqlite from 'better-sqlite3'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { reportError } from '../../src/shared/errors.ts'
import { createEventLog, openStore, verifyEvents } from '../../src/engine/store/index.ts'
import { aDispatch, anOutcome } from '../../src/engine/store/testing.ts'

const [disk = ''] = process.argv.slice(2)
const filler = join(disk, 'filler')
const fill = async () => {
  for (let size = 65_536; size >= 512; size /= 2) {
    for (;;) {
      try {
        await writeFile(filler, Buffer.alloc(size), { flag: 'a' })
      } catch {
        break
      }
    }
  }
}

const store = await openStore(join(disk, 'data'))
const log = await createEventLog(join(disk, 'events.ndjson'))
const before = aDispatch()
store.dispatches.create(before)
log.append({ type: 'Note', text: 'before' })
await log.flush()

// A database of an older version, on a disk that has no room for the copy that comes before a migration.
const older = join(disk, 'older')
await mkdir(older)
const oldDatabase = new Sqlite(join(older, 'orangery.db'))
oldDatabase.exec(await readFile(join(import.meta.dirname, '../../src/engine/store/fixtures/v17.sql'), 'utf8'))
oldDatabase.close()

await fill()
const failures = { store: '', log: '', close: '', migration: '' }
await openStore(older).catch((error: unknown) => (failures.migration = reportError(error).code))
const untouched = new Sqlite(join(older, 'orangery.db'), { readonly: true })
const version = untouched.pragma('user_version', { simple: true })
untouched.close()
const leftovers = (await readdir(older)).filter((name) => name.includes('.bak'))
const recorded: string[] = [before.id]
for (let count = 0; count < 200 && failures.store === ''; count++) {
  const dispatch = aDispatch({ prompt: 'x'.repeat(2_000) })
  try {
    store.dispatches.create(dispatch)
    recorded.push(dispatch.id)
  } catch (error) {
    failures.store = reportError(error).code
  }
}
for (let count = 0; count < 50; count++) log.append({ type: 'Note', text: 'y'.repeat(1_000) })
await log.flush().catch((error: unknown) => (failures.log = reportError(error).code))

await rm(filler)
const migrated = await openStore(older)
const migratedRows = migrated.dispatches.list({ limit: 9 }).length
await migrated.close()
await log.close().catch((error: unknown) => (failures.close = reportError(error).code))
const finished = recorded.map((id) => store.dispatches.finish(id as never, anOutcome()))
process.stdout.write(
  JSON.stringify({
    failures,
    migration: { version, leftovers, rowsAfterwards: migratedRows },
    finished: finished.every(Boolean),
    rows: store.dispatches.list({ limit: 1_000 }).length === recorded.length,
    whole: store.database.sqlite.pragma('integrity_check', { simple: true }),
    proof: await verifyEvents(join(disk, 'events.ndjson'), log.lastHash),
  }),
)
await store.close()
