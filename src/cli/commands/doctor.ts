import type { Command } from 'commander'
import type { CheckResult, DoctorReport } from '../../shared/doctor.ts'
import { exitCodes, OrangeryError } from '../../shared/errors.ts'
import { inspectHost, withClient } from '../connect.ts'
import { print, printJson } from '../terminal/print.ts'
import { paint } from '../terminal/style.ts'
import { renderOrphans } from './archive.ts'
import { renderFields } from '../terminal/table.ts'
import { showAll } from '../../shared/visible.ts'

/** A check on one line, and what helps below it where it is not as it must be. */
export function renderCheck({ name, ok, detail, fix }: CheckResult): string {
  const line = `  ${ok ? paint('green', 'ok') : paint('red', 'no')}  ${name}: ${showAll(detail)}`
  return ok || fix === null ? line : `${line}\n      ${paint('dim', 'fix:')} ${showAll(fix)}`
}

function renderReport(report: DoctorReport): string {
  const facts = renderFields([
    ['system', `${report.platform}, ${report.kernel}`],
    ['data', showAll(report.data_dir)],
    ...Object.entries(report.limits).map(([name, by]) => [`limit: ${name}`, by] as const),
  ])
  const levels = report.levels.map(({ level, name, available, driver, workspace, checks }) => {
    const how = [driver, workspace].filter((part) => part !== null).join(', ')
    const state = available ? paint('green', 'available') : paint('red', 'not here')
    const heading = `${paint('bold', `level ${level}, ${name}`)}  ${state}${how === '' ? '' : `  ${how}`}`
    return [heading, ...checks.map(renderCheck)].join('\n')
  })
  const orphans = report.orphans ?? []
  const left =
    orphans.length === 0
      ? []
      : [`${paint('bold', 'belongs to nothing')}, and is left as it is\n${renderOrphans(orphans)}`]
  const records =
    report.records === undefined ? [] : [`${paint('bold', 'records')}\n${renderCheck(report.records)}`]
  return [facts, ...levels, ...records, ...left].join('\n\n')
}

/** Damaged records are one thing that is wrong, and no reason to say nothing about the rest. */
async function withoutRecords(error: unknown): Promise<DoctorReport> {
  if (!(error instanceof OrangeryError) || !error.code.startsWith('store.')) throw error
  const report = await inspectHost()
  const isToldThere = report.levels.some(({ checks }) =>
    checks.some(({ name, ok }) => name === 'data folder' && !ok),
  )
  // A data folder that cannot be written is among what this host cannot do, none of which is a failure of ours.
  if (!isToldThere) process.exitCode = exitCodes[error.kind]
  const records = { name: 'database', ok: false, detail: error.message, fix: error.hint ?? null }
  return { ...report, records }
}

async function examine(options: { readonly json?: boolean }): Promise<void> {
  const report = await withClient((client) => client.call('host.doctor', {})).catch(withoutRecords)
  if (options.json) printJson(report)
  else print(renderReport(report))
}

export function registerDoctor(program: Command): void {
  program
    .command('doctor')
    .summary('what this machine can do, per level')
    .description('Looks at what this machine can do, level by level, and says what helps where it cannot.')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery doctor --json | jq ".levels[] | {name, available}"')
    .action(examine)
}
