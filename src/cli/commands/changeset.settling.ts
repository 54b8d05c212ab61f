import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import type { Output } from '../../shared/api.ts'
import { choices } from '../../shared/changeset.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { showAll } from '../../shared/visible.ts'
import { withClient } from '../connect.ts'
import { printError } from '../failure.ts'
import { tellExpansions } from '../outputs.ts'
import { addPlace, placeOf, requiredPlace, type PlaceOptions } from './changeset.place.ts'
import { gather, passedEnv } from '../spawnOptions.ts'
import { paintState } from '../terminal/style.ts'
import { print, printJson } from '../terminal/print.ts'

type Json = { readonly json?: boolean }

export function oneOf<T extends string>(known: readonly T[], text: string, what: string): T {
  const found = known.find((each) => each === text)
  if (found !== undefined) return found
  throw new OrangeryError(`usage.${what}`, `${text}: not a ${what}`, {
    kind: 'usage',
    hint: `One of: ${known.join(', ')}.`,
  })
}

type ReworkOptions = Json & { readonly comment?: string; readonly env?: readonly string[] }

async function rework(id: string, options: ReworkOptions) {
  const input = { id, comment: options.comment ?? '', env: passedEnv(options.env) }
  const result = await withClient(async (client) => {
    tellExpansions(await client.call('changeset.rework_outputs', { id }))
    return client.call('changeset.rework', input)
  })
  if (options.json) printJson(result)
  else print(result.dispatch)
}

async function showConflicts(id: string, options: Json & PlaceOptions) {
  if (options.path !== undefined || options.pathB64 !== undefined) {
    const place = { id, ...placeOf(options) }
    const texts = await withClient((client) => client.call('changeset.conflict_texts', place))
    if (options.json) return printJson(texts)
    // Byte for byte, whatever its line ends and encoding: it is edited and given back.
    return void process.stdout.write(Buffer.from(texts.both_b64, 'base64'))
  }
  reportConflicts(await withClient((client) => client.call('changeset.conflicts', { id })), options)
}

type ResolveOptions = Json & PlaceOptions & { readonly file?: string }

async function resolveConflict(id: string, word: string, options: ResolveOptions) {
  const choice = word === 'none' ? null : oneOf(choices, word, 'choice')
  const { file } = options
  if ((choice === 'edit') !== (file !== undefined)) {
    throw new OrangeryError('usage.edit', 'edit and --file go together', { kind: 'usage' })
  }
  const content = file === undefined ? {} : { content_b64: readFileSync(file).toString('base64') }
  const input = { id, ...requiredPlace(options), choice, ...content }
  reportConflicts(await withClient((client) => client.call('changeset.resolve', input)), options)
}

function reportConflicts(found: Output<'changeset.conflicts'>, options: Json) {
  if (options.json) return printJson(found)
  const places = [...found.conflicts, ...found.settled, ...found.lands]
  const isSeveral = new Set(places.map(({ root }) => root)).size > 1
  const named = ({ root, path }: (typeof places)[number]) => showAll(isSeveral ? `${root}: ${path}` : path)
  for (const each of found.conflicts)
    print(`${named(each)}: ${showAll(each.why)} (${each.choices.join(', ')})`)
  for (const { choice, by, ...each } of found.settled)
    print(`${named(each)}: ${showAll(each.why)} (settled: ${choice}, by ${showAll(by)})`)
  for (const path of found.merged) print(`${showAll(path)}: merges`)
  if (found.conflicts.length + found.settled.length + found.merged.length === 0) print('no conflicts')
}

async function settle(id: string, word: string, options: Json & PlaceOptions) {
  const choice = oneOf(['mine', 'theirs'], word, 'choice')
  const input = { id, ...requiredPlace(options), choice }
  const result = await withClient((client) => client.call('changeset.settle', input))
  if (options.json) return printJson(result)
  print(`${result.id} is ${paintState(result.state)}`)
  for (const note of result.notes ?? []) printError(note, undefined)
}

async function escalate(id: string, options: Json & { why?: string; clear?: boolean }) {
  const { why, clear = false } = options
  if ((why === undefined) !== clear) {
    throw new OrangeryError('usage.escalate', 'escalate: it needs a reason, or --clear', {
      kind: 'usage',
      hint: 'Give the reason with --why.',
    })
  }
  const changeset = await withClient((client) => client.call('changeset.escalate', { id, why: why ?? null }))
  if (options.json) printJson(changeset)
  else print(clear ? `${changeset.id} is not flagged any more` : `${changeset.id} is flagged to a person`)
}

/** What is done about a review that does not simply end with yes or no. */
export function registerSettling(changeset: Command): void {
  changeset
    .command('rework <id>')
    .summary('send it back to its agent: the next turn')
    .description(
      'Starts the agent again in the same workspace, with every comment of the review as its prompt, and prints the id of that dispatch. Decisions on what does not change stay.',
    )
    .option('--comment <text>', 'said of the whole, besides the comments made')
    .option('--env <name>', 'pass this environment variable through; repeatable', gather)
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExample:\n  orangery dispatch wait $(orangery changeset rework 20260128 --comment "tests are missing")',
    )
    .action(rework)

  const conflicts = changeset
    .command('conflicts <id>')
    .summary('what an apply would run into')
    .description(
      'Lists files that both you and the agent changed, what can be chosen, and what was chosen. Changes nothing.',
    )
  addPlace(conflicts, 'print this file with both sides in it, marked, to edit for `resolve … edit --file`')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  orangery changeset conflicts 20260128\n  orangery changeset conflicts 20260128 --path src/main.c > edited.c',
    )
    .action(showConflicts)

  const resolving = changeset
    .command('resolve <id> <choice>')
    .summary('settle a conflict: mine, theirs, both or edit; none takes it back')
    .description(
      'Settles the conflict of one file: mine, theirs, both, or edit with --file. A later choice takes the place of an earlier one, until it has landed; none takes it back.',
    )
  addPlace(resolving, 'the file, as `changeset conflicts` names it')
    .option('--file <file>', 'with edit: the content it shall have')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery changeset resolve 20260128 theirs --path src/main.c')
    .action(resolveConflict)

  changeset
    .command('escalate <id>')
    .summary('flag it to a person, or take the flag back')
    .description('Flags a changeset to a person, for a reviewer who is not to decide alone.')
    .option('--why <text>', 'what the person should look at')
    .option('--clear', 'take the flag back')
    .option('--json', 'print the changeset as JSON')
    .addHelpText('after', '\nExample:\n  orangery changeset escalate 20260128 --why "touches the licence"')
    .action(escalate)

  const settling = changeset
    .command('settle <id> <choice>')
    .summary('after a crash: whose a file shall be, mine or theirs')
    .description(
      'Settles a file that an apply or undo stopped at after a crash, because it is neither what it was nor what it should become: mine leaves it as it is, theirs replaces it. Then the apply is brought to its end.',
    )
  addPlace(settling, 'the file, as the refusal named it')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery changeset settle 20260128 mine --path src/main.c')
    .action(settle)
}
