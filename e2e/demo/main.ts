import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { serve } from '../../src/serve/index.ts'
import { makeDemo } from './handlers.ts'

// The window with canned answers, for working on its looks: node e2e/demo/main.ts
const dataDir = await mkdtemp(join(tmpdir(), 'orangery-demo-'))
const { handlers } = await makeDemo(dataDir)
const serving = await serve({ engine: { handlers }, port: Number(process.env['PORT'] ?? 0) })
console.log(serving.url)
process.once('SIGINT', () => {
  void serving.close().then(() => rm(dataDir, { recursive: true, force: true }))
})
