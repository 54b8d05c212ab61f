import { serve } from '../../src/serve/index.ts'
import { makeDemo } from './handlers.ts'

// The window with canned answers, for working on its looks: node e2e/demo/main.ts
const { handlers } = await makeDemo()
const serving = await serve({ engine: { handlers }, port: Number(process.env['PORT'] ?? 0) })
console.log(serving.url)
