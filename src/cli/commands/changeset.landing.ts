import type { Command } from 'commander'
import type { Client } from '../../shared/api.ts'
import type { ApplyResult } from '../../shared/changeset.ts'
import { exitCodes, OrangeryError } from '../../shared/errors.ts'
import { withClient } from '../connect.ts'
import { printError } from '../failure.ts'
import { ask } from '../terminal/ask.ts'
import { notCutOff } from '../terminal/notCutOff.ts'
import { print, printJson } from '../terminal/print.ts'
import { plural } from '../terminal/words.ts'
import { renderApplied, renderPreview, renderWaiting, type Of } from './changeset.landing.render.ts'

type Json = { readonly json?: boolean }

/** What people are told besides takes a look at the changeset; a program is told the answer alone. */
const looked = async (client: Client, id: string, { json }: Json): Promise<Of> =>
  json === true ? { roots: [], files: [] } : client.call('changeset.get', { id })

function reportApplied(result: ApplyResult, verb: string, of: Of, options: Json) {
  if (options.json) return printJson(result)
  print(renderApplied(result, verb, of))
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

async function preview(id: string, options: ApplyOptions) {
  const { all = false, includeIgnored = false } = options
  const selection = { id, all, include_ignored: includeIgnored }
  return withClient(async (client) => ({
    planned: await client.call('changeset.conflicts', selection),
    of: await looked(client, id, options),
  }))
}

/** Where nothing is decided yet, whoever sits at the terminal is shown what would land and asked. */
async function askForAll(id: string, options: ApplyOptions): Promise<ApplyOptions | null> {
  const isSeen = process.stdin.isTTY === true && process.stdout.isTTY === true && options.json !== true
  if (options.all === true || !isSeen) return options
  const { files, state, revision } = await withClient((client) => client.call('changeset.get', { id }))
  const isDecided = files.some((file) => [file, ...file.hunks].some(({ decision }) => decision !== null))
  if (isDecided || state !== 'review') return options
  const everything = { ...options, all: true, revision: options.revision ?? revision }
  const { planned, of } = await preview(id, everything)
  print(renderPreview(planned, of))
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

const goesWith = [
  ['message', 'message', 'commit'],
  ['own', 'own', 'commit'],
  ['hooks', 'hooks', 'commit'],
  ['sign', 'sign', 'commit'],
  ['includeIgnored', 'include-ignored', 'all'],
] as const

/**
 * Who says how the commit shall be and forgets to ask for one would have no commit, and no word of it; nor would one of
 * what the agent's own commits are not made with.
 */
function refuseLoneOptions(options: ApplyOptions): void {
  // An empty word is a variable that was not set: which branch was meant may not be our guess.
  if (options.commit === '') {
    throw new OrangeryError('usage.empty_commit', '--commit: it is empty', {
      kind: 'usage',
      hint: 'Nothing was changed. Name the branch that the commit shall be on, or leave --commit away.',
    })
  }
  for (const name of ['message', 'hooks', 'sign'] as const) {
    if (options.own === undefined || options[name] === undefined) continue
    throw new OrangeryError('usage.lone_option', `apply: --${name} does not go with --own`, {
      kind: 'usage',
      hint: `Nothing was changed. The agent's own commits land as they are: leave --${name} away, or --own for a commit of yours.`,
    })
  }
  for (const [key, name, needed] of goesWith) {
    if (options[key] === undefined || options[needed] !== undefined) continue
    throw new OrangeryError('usage.lone_option', `apply: --${name} goes with --${needed}`, {
      kind: 'usage',
      hint: `Nothing was changed. Give --${needed} too, or leave --${name} away.`,
    })
  }
}

async function apply(id: string, given: ApplyOptions) {
  refuseLoneOptions(given)
  if (given.dryRun === true) {
    const { planned, of } = await preview(id, given)
    return given.json ? printJson(planned) : print(renderPreview(planned, of))
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
  const { result, of } = await withClient(async (client) => ({
    of: await looked(client, id, options),
    result: await notCutOff('apply', () => client.call('changeset.apply', input)),
  }))
  reportApplied(result, 'applied', of, options)
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

async function undo(id: string, options: Json & { readonly whenIdle?: boolean; readonly last?: boolean }) {
  const when = options.whenIdle === true ? 'idle' : 'now'
  const { result, of } = await withClient(async (client) => ({
    result: await notCutOff('undo', () =>
      client.call('changeset.undo', { id, when, last: options.last === true }),
    ),
    of: await looked(client, id, options),
  }))
  reportApplied(result, 'taken back', of, options)
  if (options.json === true || result.waits_for !== undefined) return
  if (of.files.some((file) => [file, ...file.hunks].some(({ decision }) => decision !== null)))
    print(
      `What was decided stays, and \`apply\` lands what is approved again; to decide anew: orangery changeset decide ${result.id} --path . none`,
    )
}

/** What lets a changeset into the user's files, and takes it back. */
export function registerLanding(changeset: Command): void {
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
    .description(
      'Restores your files to what they were before anything of the changeset was applied, also where it landed in several applies or in part.',
    )
    .option('--last', 'take back only what the last apply landed')
    .option('--when-idle', 'where an agent runs on the same folders, do it when it has ended')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery changeset undo 20260128')
    .action(undo)
}
