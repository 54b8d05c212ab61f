import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { canRunAs, runSuiteAs } from './runAs.ts'
import { renderTable } from './table.ts'

// Writes docs/escape-table.md. Run as root, so that both columns can be filled.
if (!(await canRunAs('ordinary user')) || !(await canRunAs('root'))) {
  console.error('needs root, and a checkout an ordinary user can read')
  process.exit(1)
}
const root = await runSuiteAs('root')
const ordinary = await runSuiteAs('ordinary user')
await writeFile(join(import.meta.dirname, '../../docs/escape-table.md'), renderTable('Linux', root, ordinary))
