import type { Command } from 'commander'
import type { ApplyResult, Verdict } from '../../shared/changeset.ts'
import { diffScopes, verdicts } from '../../shared/changeset.ts'
import { exitCodes, OrangeryError } from '../../shared/errors.ts'
import { withClient } from '../connect.ts'
import { printError } from '../failure.ts'
import { ask } from '../terminal/ask.ts'
import { print, printJson } from '../terminal/print.ts'
import { printNotes } from './archive.ts'
import { paintState } from '../terminal/style.ts'
import { plural } from '../terminal/words.ts'
import {
  renderApplied,
  renderChangeset,
  renderChangesets,
  renderDiff,
  renderGlimpses,
  renderPreview,
  renderWaiting,
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

async function showChangeset(id: string, options: Json) {
  const changeset = await withClient((client) => client.call('changeset.get', { id }))
  if (options.json) printJson(changeset)
  else print(renderChangeset(changeset))
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
  const diff = await withClient((client) =>
    client.call('changeset.diff', {
      id,
      stat,
      include_ignored: includeIgnored,
      scope,
      inter: options.inter === true,
      read: true,
      ...placeOf(options),
    }),
  )
  if (options.json) return printJson(diff)
  if (process.stdout.isTTY) print(renderDiff(diff.text))
  // A program reads this: byte for byte what `git apply` takes.
  else process.stdout.write(bytesOf(diff))
  warnIfCut(diff, id)
  warnIfLeftOut(diff)
}

function parseVerdict(text: string): Verdict {
  const verdict = verdicts.find((known) => known === text)
  if (verdict !== undefined) return verdict
  throw new OrangeryError('usage.verdict', `${text}: not a verdict`, {
    kind: 'usage',
    hint: 'Verdicts are approve, reject and rework.',
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

function reportApplied(result: ApplyResult, verb: string, options: Json) {
  if (options.json) return printJson(result)
  print(renderApplied(result, verb))
  for (const note of result.notes ?? []) printError(note, undefined)
}

type ApplyOptions = Json & {
  readonly all?: boolean
  readonly includeIgnored?: boolean
  readonly revision?: string
  readonly commit?: string
  readonly message?: string
  readonly own?: boolean
  readonly hooks?: boolean
  readonly sign?: boolean
  readonly whenIdle?: boolean
  readonly dryRun?: boolean
}

async function preview(id: string, { all = false, includeIgnored = false }: ApplyOptions) {
  const selection = { id, all, include_ignored: includeIgnored }
  return withClient((client) => client.call('changeset.conflicts', selection))
}

/** Where nothing is decided yet, whoever sits at the terminal is shown what would land and asked. */
async function askForAll(id: string, options: ApplyOptions): Promise<ApplyOptions | null> {
  const isSeen = process.stdin.isTTY === true && process.stdout.isTTY === true && options.json !== true
  if (options.all === true || !isSeen) return options
  const { files, state, revision } = await withClient((client) => client.call('changeset.get', { id }))
  const isDecided = files.some((file) => [file, ...file.hunks].some(({ decision }) => decision !== null))
  if (isDecided || state !== 'review') return options
  const everything = { ...options, all: true, revision: options.revision ?? revision }
  const planned = await preview(id, everything)
  print(renderPreview(planned))
  if (planned.lands.length === 0) return null
  return (await ask(`Approve and apply ${plural(planned.lands.length, 'file')}?`)) ? everything : null
}

/** Who commits, where the shell says it otherwise than git's settings; the engine may be in another process. */
function identityIn(env: NodeJS.ProcessEnv) {
  return {
    author_name: env['GIT_AUTHOR_NAME'],
    author_email: env['GIT_AUTHOR_EMAIL'],
    committer_name: env['GIT_COMMITTER_NAME'],
    committer_email: env['GIT_COMMITTER_EMAIL'],
  }
}

async function apply(id: string, given: ApplyOptions) {
  if (given.dryRun === true) {
    const planned = await preview(id, given)
    return given.json ? printJson(planned) : print(renderPreview(planned))
  }
  const options = await askForAll(id, given)
  if (options === null) {
    process.exitCode = exitCodes.refused
    return print('nothing was applied')
  }
  const { all = false, includeIgnored = false, revision, commit: branch, message, own, hooks, sign } = options
  const commit =
    branch === undefined
      ? {}
      : {
          commit: {
            branch,
            own: own === true,
            hooks: hooks === true,
            sign: sign === true,
            identity: identityIn(process.env),
            ...(message === undefined ? {} : { message }),
          },
        }
  const input = {
    id,
    all,
    include_ignored: includeIgnored,
    when: options.whenIdle === true ? ('idle' as const) : ('now' as const),
    ...(revision === undefined ? {} : { revision }),
    ...commit,
  }
  const result = await withClient((client) => client.call('changeset.apply', input))
  reportApplied(result, 'applied', options)
  // The files are there and the commit is not: a script must not go on as if it were.
  const isMissing = branch !== undefined && result.commit === undefined && result.waits_for === undefined
  if (isMissing) process.exitCode = exitCodes.cannot_create
}

async function waiting(options: Json & { readonly cancel?: string }) {
  const { cancel } = options
  if (cancel !== undefined) {
    const { id } = await withClient((client) => client.call('landing.cancel', { id: cancel }))
    return options.json ? printJson({ id }) : print(`${id} waits for you again`)
  }
  const landings = await withClient((client) => client.call('landing.list', {}))
  if (options.json) printJson(landings)
  else print(renderWaiting(landings))
}

async function undo(id: string, options: Json & { readonly whenIdle?: boolean }) {
  const when = options.whenIdle === true ? 'idle' : 'now'
  const result = await withClient((client) => client.call('changeset.undo', { id, when }))
  reportApplied(result, 'taken back', options)
}

function reportState(result: { id: string; state: string }, options: Json) {
  if (options.json) printJson(result)
  else print(`${result.id} is ${paintState(result.state)}`)
}

async function reject(id: string, options: Json & { comment: string }) {
  const { comment } = options
  reportState(await withClient((client) => client.call('changeset.reject', { id, comment })), options)
}

async function abandon(id: string, options: Json) {
  const { result, files } = await withClient(async (client) => {
    const { files: held } = await client.call('changeset.get', { id })
    return { result: await client.call('changeset.abandon', { id }), files: held.length }
  })
  if (options.json) return printJson(result)
  printNotes(result.notes)
  const held = [plural(files, 'change'), ...(result.commits === 0 ? [] : [plural(result.commits, 'commit')])]
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
    .description('Shows what changed, file by file, with the decisions made.')
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
      'Decides on a file or one hunk of it: approve, reject or rework. What you approve is what `changeset diff` or `export` has shown you: a file that has changed since is refused. Hunks of a renamed file land under its old name until all of it is approved.',
    )
  addPlace(deciding, 'the file, as `changeset show` names it')
    .option('--hunk <id>', 'only this hunk, as `show --json` names it; its beginning will do')
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

  changeset
    .command('apply <id>')
    .summary('let approved changes into your files')
    .description(
      'Writes what was approved into your files: exactly the reviewed bytes, all or nothing. Where nothing is decided yet, asks on a terminal whether to approve all of it.',
    )
    .option('--all', 'approve everything first that is neither protected nor ignored')
    .option('--include-ignored', 'with --all: ignored files too')
    .option('--revision <id>', 'refuse if the changeset is not at this revision any more')
    .option('--commit <branch>', 'also make a commit of it on this branch')
    .option('--message <text>', 'with --commit: the message')
    .option('--own', "with --commit: the agent's own commits instead of a new one")
    .option('--hooks', 'with --commit: run your hooks')
    .option('--sign', 'with --commit: have your gpg, or what gpg.program names, sign it')
    .option('--when-idle', 'where an agent runs on the same folders, land when it has ended')
    .option('--dry-run', 'only say what would land, what would stay behind and why, and what is in the way')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  orangery changeset apply 20260128 --all --dry-run\n  orangery changeset apply 20260128 --all',
    )
    .action(apply)

  changeset
    .command('waiting')
    .summary('landings that wait for running agents')
    .description('Lists landings that wait until no agent runs on their folders, or takes one of them back.')
    .option('--cancel <id>', 'do not land this one')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery changeset waiting')
    .action(waiting)

  changeset
    .command('undo <id>')
    .summary('take an applied changeset back')
    .description('Restores your files to what they were before the changeset was applied.')
    .option('--when-idle', 'where an agent runs on the same folders, do it when it has ended')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery changeset undo 20260128')
    .action(undo)

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
