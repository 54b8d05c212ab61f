import type { Command } from 'commander'
import type { Verdict } from '../../shared/changeset.ts'
import { diffScopes, verdicts } from '../../shared/changeset.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { withClient } from '../connect.ts'
import { print, printJson } from '../terminal/print.ts'
import { printNotes } from './archive.ts'
import { paintState } from '../terminal/style.ts'
import { plural } from '../terminal/words.ts'
import { registerLanding } from './changeset.landing.ts'
import {
  renderChangeset,
  renderChangesets,
  renderDiff,
  renderGlimpses,
  type ShownChangeset,
} from './changeset.render.ts'
import { bytesOf, registerExport, warnIfCut, warnIfLeftOut } from './changeset.export.ts'
import { addPlace, placeOf, requiredPlace, type PlaceOptions } from './changeset.place.ts'
import { oneOf, registerSettling } from './changeset.settling.ts'

type Json = { readonly json?: boolean }

async function listChangesets(options: Json) {
  const changesets = await withClient((client) => client.call('changeset.list', {}))
  if (options.json) printJson(changesets)
  else print(renderChangesets(changesets))
}

async function showChangeset(id: string, options: Json & ShownChangeset) {
  const changeset = await withClient((client) => client.call('changeset.get', { id }))
  if (options.json) printJson(changeset)
  else print(renderChangeset(changeset, options))
}

async function peek(id: string, options: Json) {
  const glimpses = await withClient((client) => client.call('changeset.peek', { id }))
  if (options.json) printJson(glimpses)
  else print(renderGlimpses(glimpses))
}

type DiffOptions = Json &
  PlaceOptions & {
    readonly stat?: boolean
    readonly includeIgnored?: boolean
    readonly scope?: string
    readonly inter?: boolean
  }

async function showDiff(id: string, options: DiffOptions) {
  const { stat = false, includeIgnored = false } = options
  const scope = oneOf(diffScopes, options.scope ?? 'all', 'scope')
  const input = {
    id,
    stat,
    include_ignored: includeIgnored,
    scope,
    inter: options.inter === true,
    read: true,
    ...placeOf(options),
  }
  const diff = await withClient((client) => client.call('changeset.diff', input))
  if (options.json) return printJson(diff)
  if (process.stdout.isTTY) print(renderDiff(diff.text))
  // A program reads this: byte for byte what `git apply` takes.
  else process.stdout.write(bytesOf(diff))
  warnIfCut(diff, id)
  warnIfLeftOut(diff)
}

function parseVerdict(text: string): Verdict | null {
  if (text === 'none') return null
  const verdict = verdicts.find((known) => known === text)
  if (verdict !== undefined) return verdict
  throw new OrangeryError('usage.verdict', `${text}: not a verdict`, {
    kind: 'usage',
    hint: 'Verdicts are approve, reject and rework; none takes one back.',
  })
}

/** The agent would be sent back with nothing said. */
function refuseEmpty(comment: string): void {
  if (comment.trim() !== '') return
  throw new OrangeryError('usage.comment', '--comment: it is empty', {
    kind: 'usage',
    hint: 'Say what is wrong with it: the agent is told.',
  })
}

type DecideOptions = Json &
  PlaceOptions & {
    readonly hunk?: string
    readonly comment?: string
    readonly revision?: string
  }

async function decide(id: string, word: string, options: DecideOptions) {
  const verdict = parseVerdict(word)
  const { json, hunk, comment, revision } = options
  if (comment !== undefined) refuseEmpty(comment)
  const input = {
    id,
    verdict,
    ...requiredPlace(options),
    ...(hunk === undefined ? {} : { hunk }),
    ...(comment === undefined ? {} : { comment }),
    ...(revision === undefined ? {} : { revision }),
  }
  const changeset = await withClient((client) => client.call('changeset.decide', input))
  if (json) printJson(changeset)
  else print(renderChangeset(changeset))
}

function reportState(result: { id: string; state: string }, options: Json) {
  if (options.json) printJson(result)
  else print(`${result.id} is ${paintState(result.state)}`)
}

async function reject(id: string, options: Json & { comment: string }) {
  const { comment } = options
  refuseEmpty(comment)
  reportState(await withClient((client) => client.call('changeset.reject', { id, comment })), options)
}

async function abandon(id: string, options: Json) {
  const { result, read } = await withClient(async (client) => {
    // One that is damaged is given up like any other: what cannot be read of it is not counted.
    const [seen] = await Promise.allSettled([client.call('changeset.get', { id })])
    return { result: await client.call('changeset.abandon', { id }), read: seen }
  })
  if (options.json) return printJson(result)
  printNotes(result.notes)
  if (read.status === 'rejected')
    printNotes([
      `it cannot be read: ${read.reason instanceof Error ? read.reason.message : String(read.reason)}`,
    ])
  const changes =
    read.status === 'rejected' ? 'what is left of it' : plural(read.value.files.length, 'change')
  const held = [changes, ...(result.commits === 0 ? [] : [plural(result.commits, 'commit')])]
  const kept = `${held.join(' and ')} kept for 30 days`
  print(`${result.id} is ${paintState(result.state)}, ${kept}: orangery changeset restore ${result.id}`)
}

async function restore(id: string, options: Json) {
  reportState(await withClient((client) => client.call('changeset.restore', { id })), options)
}

export function registerChangeset(program: Command): void {
  const changeset = program
    .command('changeset')
    .summary('what agents changed: read, decide, apply, undo')
    .helpCommand(false)
    .description('Everything about changesets. A changeset has the id of its dispatch.')

  changeset
    .command('list')
    .summary('changesets, newest first')
    .description('Lists changesets, newest first.')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery changeset list')
    .action(listChangesets)

  changeset
    .command('show <id>')
    .summary('what changed, file by file')
    .description('Shows what changed, file by file, with the decisions and comments made.')
    .option('--hunks', 'every hunk, with the id that `decide --hunk` takes and what wrote it')
    .option('--ignored', 'every ignored file; otherwise they are counted by folder')
    .option('--json', 'print JSON, with hunks')
    .addHelpText('after', '\nExample:\n  orangery changeset show 20260128 --json | jq ".files[].path"')
    .action(showChangeset)

  changeset
    .command('peek <id>')
    .summary('what is different just now, at a glance')
    .description(
      'Lists what may have changed in the workspace up to now, with kinds and sizes, without reading a file. Also while the agent runs.',
    )
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery changeset peek 20260128')
    .action(peek)

  const diff = changeset
    .command('diff <id>')
    .summary('the changes as a unified diff')
    .description('Prints a unified diff that `git apply` accepts.')
    .option('--stat', 'only how much changed where')
  addPlace(diff, 'only this file, or what is in this folder')
    .option('--include-ignored', 'ignored files too')
    .option(
      '--scope <scope>',
      'all, review (since what you had read when you last decided something) or turn (the last turn)',
    )
    .option('--inter', 'only files that changed after they were decided on, against what they were then')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  orangery changeset diff 20260128\n  orangery changeset diff 20260128 --stat',
    )
    .action(showDiff)

  const deciding = changeset
    .command('decide <id> <verdict>')
    .summary('approve, reject or rework a file or a hunk')
    .description(
      'Decides on a file or one hunk of it: approve, reject or rework; none takes the decision back. What you approve is what `changeset diff` or `export` has shown you: a file that has changed since is refused. Hunks of a renamed file land under its old name until all of it is approved.',
    )
  addPlace(deciding, 'the file, as `changeset show` names it')
    .option('--hunk <id>', 'only this hunk, as `show --hunks` names it; its beginning will do')
    .option('--comment <text>', 'what the agent is told')
    .option(
      '--revision <id>',
      'what you have seen, as `show --json` and `diff --json` tell it: not approved if it has changed since',
    )
    .option('--json', 'print the changeset as JSON')
    .addHelpText(
      'after',
      `
Examples:
  orangery changeset decide 20260128 --path src/main.c approve
  orangery changeset decide 20260128 --path src/main.c --hunk 3f9c2 rework --comment "keep the old name"`,
    )
    .action(decide)

  registerLanding(changeset)

  changeset
    .command('reject <id>')
    .summary('send it back with a comment')
    .description('Sends a changeset back; the comment is what the agent is told.')
    .requiredOption('--comment <text>', 'what is wrong with it')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery changeset reject 20260128 --comment "tests are missing"')
    .action(reject)

  changeset
    .command('abandon <id>')
    .summary('let it go; archived for 30 days')
    .description('Gives a changeset up. It is archived for 30 days.')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery changeset abandon 20260128')
    .action(abandon)

  changeset
    .command('restore <id>')
    .summary('bring a rejected or abandoned one back to review')
    .description('Brings a rejected or abandoned changeset back to review.')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery changeset restore 20260128')
    .action(restore)

  registerSettling(changeset)

  registerExport(changeset)
}
