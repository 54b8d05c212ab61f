import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { canRunAs, runSuiteAs } from './runAs.ts'
import { renderTable, summarise } from './table.ts'

// Writes docs/escape-table.md. Run as root, so that both columns can be filled.
if (!(await canRunAs('ordinary user')) || !(await canRunAs('root'))) {
  console.error('needs root, and a checkout an ordinary user can read')
  process.exit(1)
}
const root = await runSuiteAs('root')
const ordinary = await runSuiteAs('ordinary user')
const top = join(import.meta.dirname, '../..')
const page = renderTable('Linux', root, ordinary)
await writeFile(join(top, 'docs/escape-table.md'), page)
const readme = await readFile(join(top, 'README.md'), 'utf8')
const summary = `<!-- attacks -->\n\n${summarise(page)}\n\n<!-- /attacks -->`
await writeFile(join(top, 'README.md'), readme.replace(/<!-- attacks -->.*<!-- \/attacks -->/s, summary))
