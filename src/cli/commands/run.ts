import { accessSync, constants, existsSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Command } from 'commander'
import type { DispatchDetail } from '../../shared/dispatch.ts'
import { sandboxEffectiveSchema } from '../../shared/effective.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { showAll } from '../../shared/visible.ts'
import { printError } from '../failure.ts'
import { stayWithoutReaders } from '../terminal/streams.ts'
import { plural } from '../terminal/words.ts'
import { printNotes } from './archive.ts'
import { openEngine } from '../connect.ts'
import { detailJson } from '../exactSpec.ts'
import { Denials, tellPresets } from '../outputs.ts'
import { Questions } from '../questions.ts'
import { warnOf } from '../warnings.ts'
import { addSpawnOptions, spawnInput, type SpawnOptions } from '../spawnOptions.ts'

type RunOptions = SpawnOptions & { readonly summary?: string; readonly quiet?: boolean }

async function runCommand(command: readonly string[], options: RunOptions): Promise<void> {
  stayWithoutReaders()
  const input = spawnInput(options, command)
  if (options.summary !== undefined) refuseUnwritable(options.summary)
  const isQuiet = options.quiet === true
  const terminal = process.stdin.isTTY === true && process.stdout.isTTY === true
  await using engine = await openEngine()
  // Said to the quiet too: what is granted is seen before it is.
  await tellPresets(engine.client, input)
  const denials = new Denials()
  using questions = new Questions(engine.client)
  const summarise = async (detail: DispatchDetail) => {
    if (options.summary === undefined) return
    writeSummary(options.summary, detail.id, await detailJson(engine.client, detail))
  }
  const running = engine.runForeground(input, {
    terminal,
    onPrepared: warnOf,
    // What carries the changeset in place of what was asked for is never silent.
    onNotes: (notes, lesserWorkspace) => printNotes(isQuiet ? lesserWorkspace : notes),
    ...(isQuiet || terminal
      ? {}
      : {
          onRefused: (of, refused) => denials.tell(of, refused),
          onAsked: (of, asked) => questions.ask(of, asked),
        }),
  })
  const { id, exitCode, error } = await running.catch(async (failure: unknown) => {
    // The summary of an earlier run in that file would be read as this one's.
    const failed = failedDispatch(failure)
    if (failed !== null) await summarise(await engine.client.call('dispatch.get', { id: failed }))
    throw failure
  })
  process.exitCode = exitCode
  const detail = await engine.client.call('dispatch.get', { id })
  await summarise(detail)
  if (error !== null) printError(`run: ${error}`, hintFor(error, id))
  if (isQuiet) return
  denials.sumUp(detail)
  if (error === null) tellOfLimits(detail)
  tellOfChangeset(detail)
}

/** The row that failed checks leave; null where there is none. */
function failedDispatch(failure: unknown): string | null {
  if (!(failure instanceof OrangeryError) || failure.kind !== 'preflight') return null
  const { id } = (failure.details ?? {}) as { readonly id?: unknown }
  return typeof id === 'string' ? id : null
}

/** What the sandbox lacks is granted by a card; whoever gives a command by hand has none of their own. */
const hintFor = (error: string, id: string): string =>
  error.includes(': no such command in the sandbox: ')
    ? `A sandbox shows the system and your folder, not your home: write an agent card, agents/NAME.json beside your config.json, with this command and its folder in sandboxRequirements.read, and start it by --agent NAME; or name the folder by --dir as well. orangery dispatch status ${id}`
    : `orangery dispatch status ${id}`

/** Before anything runs: found out afterwards, it would cost a whole run. */
function refuseUnwritable(file: string): void {
  const isThere = existsSync(file)
  try {
    if (isThere && statSync(file).isDirectory()) throw new Error('it is a folder')
    accessSync(isThere ? file : dirname(file), constants.W_OK)
  } catch (error) {
    throw new OrangeryError('cli.summary_file', `--summary ${file}: ${whyOf(error)}`, {
      kind: 'cannot_create',
      hint: 'Name a file that can be written. Nothing was run.',
    })
  }
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'its folder does not exist',
  EACCES: 'it may not be written',
  EROFS: 'it may not be written',
  ENOSPC: 'no space is left there',
}

const whyOf = (error: unknown): string =>
  reasons[(error as NodeJS.ErrnoException).code ?? ''] ?? (error as Error).message

/** The command has run and has its own exit code; a summary that could not be written does not change that. */
function writeSummary(file: string, id: string, json: string): void {
  try {
    writeFileSync(file, `${json}\n`)
  } catch (error) {
    printError(
      `run: --summary ${file}: ${whyOf(error)}`,
      `The dispatch itself is recorded: orangery dispatch status ${id}`,
    )
  }
}

const limits = new Set(['memory', 'pids', 'disk', 'timeout'])

/** A command that copes, or ends by itself before it is stopped, has an exit code that says nothing of them. */
function tellOfLimits({ id, sandbox_effective: effective }: DispatchDetail): void {
  const parsed = sandboxEffectiveSchema.safeParse(effective)
  if (!parsed.success) return
  for (const { kind, detail, certain } of parsed.data.violations)
    if (limits.has(kind))
      process.stderr.write(`orangery: ${id}: ${showAll(detail)}${certain ? '' : ' (likely)'}\n`)
}

function tellOfChangeset({ id, changeset }: DispatchDetail): void {
  if (changeset === null) return
  const lines = `+${changeset.insertions} -${changeset.deletions}`
  const isOnlyCommits = changeset.files === 0
  const what = isOnlyCommits
    ? 'commits that change no file'
    : `${plural(changeset.files, 'change')} (${lines})`
  process.stderr.write(`orangery: ${id}: ${what}, waiting for review\n`)
  process.stderr.write(`  hint: orangery changeset ${isOnlyCommits ? 'show' : 'diff'} ${id}\n`)
}

export function registerRun(program: Command): void {
  const run = program
    .command('run')
    .summary('run a command in a sandbox, here and now')
    .description(
      'Runs a command in the foreground in a sandbox. It sees your folder as it is; what it writes becomes a changeset that waits for review. The exit code is the command’s own.',
    )
    .argument('[command...]', 'the command and its arguments')
    .passThroughOptions()
  addSpawnOptions(run)
    .option('--summary <file>', 'write what `dispatch status --json` prints into a file')
    .option(
      '-q, --quiet',
      'say nothing about the changeset, refused hosts and notes, but for a lesser workspace',
    )
    .addHelpText(
      'after',
      `
Examples:
  orangery run -- npm test
  orangery run -- bash                                  a shell in the sandbox
  orangery run --dir app --dir lib -- make              two roots, one review
  orangery run --allow-host example.com:443 -- curl https://example.com
  orangery run --boundary readonly --timeout-s 60 -- python3 analyse.py`,
    )
    .action(runCommand)
}
