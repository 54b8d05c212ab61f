// Another host of the same data folder, in a process of its own. Writes the dispatch it is told to on stdin, and
// prints when it had written one and when it was told of one that somebody else wrote. The clock is the machine's.
import { createInterface } from 'node:readline'
import { openStore, type NewDispatch } from '../src/engine/store/index.ts'

const [dataDir = ''] = process.argv.slice(2)
const say = (what: string, id: string) =>
  process.stdout.write(`${JSON.stringify({ what, id, at: String(process.hrtime.bigint()) })}\n`)

await using store = await openStore(dataDir)
store.onChange((ids) => ids.forEach((id) => say('told', id)))
say('ready', '')
for await (const line of createInterface({ input: process.stdin })) {
  const dispatch = JSON.parse(line) as NewDispatch
  store.dispatches.create(dispatch)
  say('wrote', dispatch.id)
}
