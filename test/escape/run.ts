import { tmpdir } from 'node:os'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { detectHost } from '../../src/engine/sandbox/index.ts'
import { judge } from './judge.ts'
import { suite } from './suite.ts'

// Runs the suite as whoever we are; one JSON object a line. Arguments: ids of the cases to run.
const chosen = process.argv.slice(2)
const dataDir = await mkdtemp(join(tmpdir(), 'orangery-escape-'))
try {
  const host = await detectHost(dataDir)
  for (const escape of suite) {
    if (chosen.length > 0 && !chosen.includes(escape.id)) continue
    console.log(JSON.stringify(await judge(escape, host)))
  }
} finally {
  await rm(dataDir, { recursive: true, force: true })
}

// A case that kills the broker leaves the relay's channel open here, and nobody closes it for a dead one.
await new Promise((resolve) => process.stdout.write('', resolve))
process.exit(0)
