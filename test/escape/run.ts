import { tmpdir } from 'node:os'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { detectHost } from '../../src/engine/sandbox/index.ts'
import { judge, type Judgement } from './judge.ts'
import { suite } from './suite.ts'

// Runs the suite as whoever we are; one JSON object a line. Arguments: ids of the cases to run.
const chosen = process.argv.slice(2)
const atOnce = 3
const dataDir = await mkdtemp(join(tmpdir(), 'orangery-escape-'))
try {
  const host = await detectHost(dataDir)
  const cases = suite.filter(({ id }) => chosen.length === 0 || chosen.includes(id))
  const judged = cases.map(() => Promise.withResolvers<Judgement>())
  const waiting = [...cases.entries()]
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [index, escape] = next
      // Each other one in a sandbox that stood before; for the other user it is the others.
      const stands = suite.indexOf(escape) % 2 === (host.uid === 0 ? 0 : 1)
      await judge(escape, host, stands).then(judged[index]?.resolve, judged[index]?.reject)
    }
  }
  // They mostly wait, for programs to start and to end: some at once take no longer than one.
  const workers = Array.from({ length: atOnce }, work)
  for (const { promise } of judged) console.log(JSON.stringify(await promise))
  await Promise.all(workers)
} finally {
  await rm(dataDir, { recursive: true, force: true })
}

// A case that kills the broker leaves the relay's channel open here, and nobody closes it for a dead one.
await new Promise((resolve) => process.stdout.write('', resolve))
process.exit(0)
