import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { cpus, release, totalmem } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { measure, type RowResult } from './measure.ts'
import { NotHere, type Row } from './row.ts'
import { renderTable } from './table.ts'
import { removeTrees } from './trees.ts'

const help = `Usage: npm run bench -- [--only TEXT] [--samples N] [--json] | --list

Measures every row of bench/rows against its peers in the same run, prints a table and writes
bench/results/latest.json. Ends with 1 when a limit does not hold.

  --only TEXT    only rows whose file or name contains TEXT
  --samples N    this many samples of each, instead of what the row says
  --list         only the names of the rows
  --json         the results as JSON on stdout, the table on stderr`

function readOptions() {
  try {
    return parseArgs({
      options: {
        only: { type: 'string', short: 'o' },
        samples: { type: 'string', short: 'n' },
        list: { type: 'boolean' },
        json: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    }).values
  } catch (error) {
    console.error(`bench: ${error instanceof Error ? error.message.split('. ')[0] : String(error)}\n${help}`)
    process.exit(64)
  }
}
const values = readOptions()

async function loadRows(): Promise<{ file: string; row: Row }[]> {
  const folder = join(import.meta.dirname, 'rows')
  const files = (await readdir(folder)).filter((name) => name.endsWith('.ts')).sort()
  const loaded = await Promise.all(
    files.map(async (file) => {
      const { rows } = (await import(join(folder, file))) as { rows: readonly Row[] }
      return rows.map((row) => ({ file, row }))
    }),
  )
  return loaded.flat()
}

async function measureOrTell(row: Row): Promise<RowResult> {
  try {
    return await measure(row, values.samples === undefined ? row.samples : Number(values.samples))
  } catch (error) {
    const left_out = error instanceof Error ? error.message : String(error)
    // A row that breaks is a finding; one that has no place on this machine is not.
    const verdicts =
      error instanceof NotHere ? [] : [{ against: 'itself', ratio: Number.NaN, limit: 'runs', ok: false }]
    return { name: row.name, unit: row.unit ?? 'ms', contenders: [], verdicts, left_out }
  }
}

async function main(): Promise<number> {
  if (values.help) {
    console.log(help)
    return 0
  }
  const say = values.json ? console.error : console.log
  const results: RowResult[] = []
  const chosen = (await loadRows()).filter(
    ({ file, row }) => values.only === undefined || `${file} ${row.name}`.includes(values.only),
  )
  if (chosen.length === 0) {
    console.error(`orangery: --only ${values.only}: no row is called so\n  hint: npm run bench -- --list`)
    return 64
  }
  if (values.list) {
    for (const { file, row } of chosen) console.log(`${file.padEnd(14)} ${row.name}`)
    return 0
  }
  try {
    for (const { row } of chosen) {
      const result = await measureOrTell(row)
      results.push(result)
      say(`${renderTable([result])}\n`)
    }
  } finally {
    await removeTrees()
  }
  const ok = results.every(({ verdicts }) => verdicts.every((verdict) => verdict.ok))
  const machine = {
    cpus: cpus().length,
    model: cpus()[0]?.model ?? 'unknown',
    memory_mb: Math.round(totalmem() / 2 ** 20),
    kernel: release(),
    node: process.version,
  }
  const document = JSON.stringify({ at: new Date().toISOString(), machine, ok, rows: results }, null, 2)
  const folder = join(import.meta.dirname, 'results')
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'latest.json'), `${document}\n`)
  if (values.json) console.log(document)
  const broken = results.flatMap(({ name, verdicts }) => verdicts.filter(({ ok }) => !ok).map(() => name))
  say(
    broken.length === 0 ? 'every limit holds' : `limits that do not hold: ${[...new Set(broken)].join('; ')}`,
  )
  return ok ? 0 : 1
}

// Trees of 200,000 files are not left behind by whoever loses patience.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void removeTrees().finally(() => process.exit(signal === 'SIGINT' ? 130 : 143)))
}
process.exitCode = await main()
