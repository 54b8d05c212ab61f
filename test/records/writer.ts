// Records dispatches from beginning to end and prints what it made and what it heard of. `window` keeps the store
// open and listens; `command` opens it anew for every few, as one command line call after another does.
import { randomBytes } from 'node:crypto'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { OrangeryError } from '../../src/shared/errors.ts'
import { makeDispatchId, type DispatchId } from '../../src/shared/ids.ts'
import { openStore, type Store } from '../../src/engine/store/index.ts'
import { aDispatch, anOutcome } from '../../src/engine/store/testing.ts'

const [dataDir = '', kind = 'window', wanted = '0', others = '0'] = process.argv.slice(2)
const made: string[] = []
const heard = new Set<string>()

function record(store: Store): void {
  const id = freshRow(store)
  store.dispatches.markRunning(id, {
    startedAt: new Date().toISOString(),
    supervisorPid: 1,
    supervisorStartTicks: 1,
  })
  store.dispatches.setBoundary(id, 'network')
  store.dispatches.finish(id, anOutcome())
  made.push(id)
}

function freshRow(store: Store): DispatchId {
  for (;;) {
    const dispatch = aDispatch({
      id: makeDispatchId(new Date(), randomBytes(2)),
      agent: kind,
      sandboxSpec: '{ }',
    })
    try {
      store.dispatches.create(dispatch)
      return dispatch.id
    } catch (error) {
      if (!(error instanceof OrangeryError) || error.code !== 'dispatch.exists') throw error
    }
  }
}

if (kind === 'window') {
  await using store = await openStore(dataDir)
  store.onChange((ids) => ids.forEach((id) => heard.add(id)))
  // As a window does: first listen, then look what is there already.
  store.dispatches.list({ limit: 1_000 }).forEach(({ id }) => heard.add(id))
  while (made.length < Number(wanted)) {
    record(store)
    await turn()
  }
  for (let waited = 0; heard.size < Number(wanted) + Number(others) && waited < 60_000; waited += 50)
    await sleep(50)
} else {
  while (made.length < Number(wanted)) {
    await using store = await openStore(dataDir)
    for (let count = 0; count < 10 && made.length < Number(wanted); count++) record(store)
  }
}
process.stdout.write(JSON.stringify({ made, heard: [...heard] }))
