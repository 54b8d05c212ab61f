import type { Command } from 'commander'
import { OrangeryError } from '../../shared/errors.ts'
import type { LoggedEvent } from '../../shared/events.ts'
import { parseSandboxSpec } from '../../shared/spec.ts'
import type { Client } from '../../shared/api.ts'
import { withClient } from '../connect.ts'
import { printError } from '../failure.ts'
import { detailJson, withExactNumbers } from '../exactSpec.ts'
import { tellPresets } from '../outputs.ts'
import { addSpawnOptions, spawnInput, type SpawnOptions } from '../spawnOptions.ts'
import { print, printJson, printJsonLine } from '../terminal/print.ts'
import { plural } from '../terminal/words.ts'
import { printNotes } from './archive.ts'
import { renderDetail, renderEvent, renderList } from './dispatch.render.ts'
import { attach } from './dispatch.shell.ts'
import { exitCodeOf, waitUntilEnded } from './dispatch.wait.ts'
import { isTerminal, type DispatchRow } from '../../shared/dispatch.ts'
import { warnOf } from '../warnings.ts'

type Json = { readonly json?: boolean }

async function spawnDispatch(command: readonly string[], options: SpawnOptions & Json & { wait?: boolean }) {
  const input = spawnInput(options, command)
  await withClient(async (client) => {
    await tellPresets(client, input)
    const { id, notes = [] } = await client.call('dispatch.spawn', input)
    printNotes(notes)
    const { level, boundary } = await client.call('dispatch.get', { id })
    const spec = input.sandbox_spec === undefined ? null : parseSandboxSpec(input.sandbox_spec)
    warnOf({ level, strategy: spec?.changeset, boundary })
    if (!options.wait) return options.json ? printJson({ id }) : print(id)
    if (!options.json) print(id)
    const detail = await waitUntilEnded(client, id)
    if (options.json) print(await detailJson(client, detail))
    process.exitCode = exitCodeOf(detail)
  })
}

function parseLimit(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw new OrangeryError('usage.limit', `--limit ${text}: not a number of rows`, {
    kind: 'usage',
    hint: 'It is a number from 1 on.',
  })
}

/** No single call gives more. */
const rowsPerCall = 1_000

async function newest(client: Client, limit: number): Promise<DispatchRow[]> {
  const rows: DispatchRow[] = []
  while (rows.length < limit) {
    const before = rows.at(-1)?.id
    const wanted = Math.min(rowsPerCall, limit - rows.length)
    const page = await client.call('dispatch.list', {
      limit: wanted,
      ...(before === undefined ? {} : { before }),
    })
    rows.push(...page)
    if (page.length < wanted) break
  }
  return rows
}

async function listDispatches(options: Json & { limit: string; tree?: boolean }) {
  const limit = parseLimit(options.limit)
  const rows = await withClient((client) => newest(client, limit))
  if (options.json) printJson(rows)
  else print(renderList(rows, options.tree === true))
}

async function showStatus(id: string, options: Json) {
  await withClient(async (client) => {
    const detail = await client.call('dispatch.get', { id })
    if (options.json) print(await detailJson(client, detail))
    else print(renderDetail(await withExactNumbers(client, detail)))
  })
}

async function proveEvents(id: string, options: Json) {
  const proof = await withClient((client) => client.call('dispatch.verify', { id }))
  if (options.json) printJson(proof)
  if (!proof.ok) {
    throw new OrangeryError('events.not_whole', `event log of ${id}: ${proof.problem ?? 'not whole'}`, {
      kind: 'input',
      hint: `What was proven: ${plural(proof.events, 'event')} from the beginning.`,
    })
  }
  if (options.json) return
  print(`${plural(proof.events, 'event')}, whole`)
  for (const { bytes, moved_to } of proof.torn ?? [])
    print(`a crash tore ${plural(bytes, 'byte')} of a line; they were moved to ${moved_to}`)
}

async function showEvents(id: string, options: Json & { follow?: boolean; verify?: boolean }) {
  if (options.verify === true) return proveEvents(id, options)
  const follow = options.follow === true
  await withClient(async (client) => {
    const events = client.open('dispatch.events', { id, follow })
    const gathered: LoggedEvent[] = []
    let isEmpty = true
    for await (const event of events) {
      isEmpty = false
      if (options.json && follow) printJsonLine(event)
      else if (options.json) gathered.push(event)
      else print(renderEvent(event))
    }
    if (options.json && !follow) printJson(gathered)
    if (!isEmpty) return
    // Nothing to show is not the same as nothing happened.
    const { problem } = await client.call('dispatch.verify', { id })
    if (problem !== null) printError(`event log of ${id}: ${problem}`, undefined)
  })
}

async function waitForDispatch(id: string, options: Json) {
  await withClient(async (client) => {
    const detail = await waitUntilEnded(client, id)
    if (options.json) print(await detailJson(client, detail))
    process.exitCode = exitCodeOf(detail)
  })
}

async function openShell(id: string, options: Json) {
  await withClient(async (client) => {
    const detail = await attach(client, id)
    if (options.json) print(await detailJson(client, detail))
    if (isTerminal(detail.status)) process.exitCode = exitCodeOf(detail)
  })
}

async function killDispatch(id: string, options: Json) {
  const killed = await withClient((client) => client.call('dispatch.kill', { id }))
  if (options.json) printJson(killed)
  else print(`${killed.id} is ended`)
}

export function registerDispatch(program: Command): void {
  const dispatch = program
    .command('dispatch')
    .summary('agents that run on their own: spawn, list, status, events, wait, kill, shell')
    .helpCommand(false)
    .description('Everything about dispatches. An id may be shortened to any unique start of it.')

  const spawn = dispatch
    .command('spawn')
    .summary('start an agent on its own and print its id')
    .description('Starts an agent that goes on by itself and prints its id.')
    .argument('[command...]', 'what to run, where no agent is named')
    .passThroughOptions()
  addSpawnOptions(spawn)
    .option('--wait', 'wait until it has ended; the exit code is then the command’s')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
Examples:
  orangery dispatch spawn --agent=claude --dir=. --prompt="fix the failing test"
  orangery dispatch spawn --dir . --wait -- make check
  orangery dispatch spawn --dir . --sandbox-spec='{"access_mode":"read-only"}' -- ls`,
    )
    .action(spawnDispatch)

  dispatch
    .command('list')
    .summary('dispatches, newest first')
    .description('Lists dispatches, newest first.')
    .option('--limit <n>', 'at most this many', '100')
    .option('--tree', 'children below their parents')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery dispatch list --json | jq ".[] | {id, status}"')
    .action(listDispatches)

  dispatch
    .command('status <id>')
    .summary('one dispatch in full')
    .description('Shows one dispatch in full: what was requested beside what really happened.')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery dispatch status 20260128120500-b7c9')
    .action(showStatus)

  dispatch
    .command('events <id>')
    .summary('what happened, in order')
    .description('Prints the event log of a dispatch.')
    .option('-f, --follow', 'go on until the dispatch has ended')
    .option('--verify', 'prove that no line was changed, moved, added or lost, instead of printing them')
    .option('--json', 'print JSON; with --follow one object a line')
    .addHelpText('after', '\nExample:\n  orangery dispatch events 20260128 --follow --json')
    .action(showEvents)

  dispatch
    .command('wait <id>')
    .summary('wait until it has ended')
    .description(
      'Waits until a dispatch has ended. The exit code is the command’s own, 128+n for signal n, 124 for our time limit.',
    )
    .option('--json', 'print what `dispatch status --json` prints')
    .addHelpText(
      'after',
      '\nExample:\n  orangery dispatch wait 20260128 && orangery changeset apply 20260128 --all',
    )
    .action(waitForDispatch)

  dispatch
    .command('kill <id>')
    .summary('end it now')
    .description('Ends a running dispatch and everything in its sandbox. What it wrote goes to review.')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery dispatch kill 20260128')
    .action(killDispatch)

  dispatch
    .command('shell <id>')
    .summary('your terminal on the agent’s')
    .description(
      'Connects your terminal with that of a running dispatch: you see what it prints and type what it reads. Ctrl-] leaves it running.',
    )
    .option('--json', 'when it has ended, print what `dispatch status --json` prints')
    .addHelpText(
      'after',
      `
Example:
  orangery dispatch shell $(orangery dispatch spawn -- bash)`,
    )
    .action(openShell)
}
