import { CommanderError, type Command } from 'commander'
import { exitCodes, OrangeryError, reportError } from '../shared/errors.ts'
import { preflightReportSchema, type CheckResult } from '../shared/doctor.ts'
import { defaultDataDir } from '../engine/base/paths.ts'
import { logUnexpected } from '../engine/base/log.ts'
import { showAll } from '../shared/visible.ts'

/** The two lines every error has: what and why, then the way out. */
export function printError(message: string, hint: string | undefined): void {
  process.stderr.write(`orangery: ${showAll(message)}\n`)
  if (hint !== undefined) process.stderr.write(`  hint: ${showAll(hint)}\n`)
}

function failedChecks(details: unknown): readonly CheckResult[] {
  const direct = preflightReportSchema.safeParse(details)
  const nested = preflightReportSchema.safeParse((details as { report?: unknown } | undefined)?.report)
  const report = direct.success ? direct.data : nested.data
  return report?.checks.filter((check) => !check.ok) ?? []
}

/** The command a line of words leads to: `orangery dispatch list …` is about `dispatch list`. */
function commandNamed(program: Command, args: readonly string[]): string {
  const words: string[] = []
  let command = program
  for (const word of args) {
    const next = command.commands.find((candidate) => candidate.name() === word)
    if (next === undefined) break
    words.push(word)
    command = next
  }
  return words.join(' ')
}

function failUsage(error: CommanderError, program: Command, args: readonly string[]): number {
  if (error.exitCode === 0) return 0
  const name = commandNamed(program, args)
  const help = `orangery ${name === '' ? '' : `${name} `}--help`
  const what = name === '' ? 'command line' : name
  // Whoever names no command has been shown all there are.
  if (error.code === 'commander.help') {
    printError(`${what}: no command is given`, 'Name one of those above.')
    return exitCodes.usage
  }
  const [first = '', suggestion] = error.message.replace(/^error: /, '').split('\n')
  const hint = suggestion?.replace(/^\((.*)\)$/, '$1')
  printError(`${what}: ${first}`, `${hint === undefined ? '' : `${hint} `}${help} lists what there is.`)
  return exitCodes.usage
}

/** Tells a person what went wrong and gives back the exit code. Never a stack trace: that goes to the log. */
export async function fail(error: unknown, program: Command, args: readonly string[]): Promise<number> {
  if (error instanceof CommanderError) return failUsage(error, program, args)
  if (!(error instanceof OrangeryError)) await logUnexpected(defaultDataDir(), error)
  const report = reportError(error)
  const checks = report.kind === 'preflight' ? failedChecks(report.details) : []
  if (checks.length === 0) printError(report.message, report.hint)
  for (const { name, detail, fix } of checks) printError(`preflight: ${name}: ${detail}`, fix ?? undefined)
  return exitCodes[report.kind]
}
