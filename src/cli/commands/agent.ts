import type { Command } from 'commander'
import { OrangeryError } from '../../shared/errors.ts'
import type { InvocationEntry } from '../../shared/invocation.ts'
import { withClient } from '../connect.ts'
import { print, printJson } from '../terminal/print.ts'
import { paint, paintState } from '../terminal/style.ts'
import { renderFields, renderTable } from '../terminal/table.ts'
import { takenBackOnSignal } from '../terminal/takenBackOnSignal.ts'
import { showAll, showLines } from '../../shared/visible.ts'
import { plural } from '../terminal/words.ts'
import { noteOrphans, printNotes, renderOrphans, restoreFromArchive } from './archive.ts'
import { bytesOf } from './changeset.export.ts'

type Json = { readonly json?: boolean }

/** The record with what was found on disk beside it: one flat object. */
const flat = (entry: InvocationEntry) => ({
  id: entry.id,
  repo_id: entry.repo_id,
  invocation_id: entry.id,
  ...entry.meta,
  broken: entry.broken,
  why: entry.why,
})

type StartOptions = Json & {
  readonly worktree: string
  readonly name?: string
  readonly runner?: string
  readonly mode?: string
}

async function start(options: StartOptions) {
  const { worktree, name, runner, mode = 'headless' } = options
  if (mode !== 'headed' && mode !== 'headless') {
    throw new OrangeryError('usage.mode', `--mode ${mode}: not a mode`, {
      kind: 'usage',
      hint: 'Modes are headed and headless.',
    })
  }
  const input = {
    worktree,
    near: process.cwd(),
    mode,
    ...(name === undefined ? {} : { name }),
    ...(runner === undefined ? {} : { runner }),
  } as const
  const meta = await takenBackOnSignal('agent start', (signal) =>
    withClient((client) => client.call('agent.start', input, signal)),
  )
  if (meta === null) return
  if (options.json) return printJson(meta)
  print(meta.invocation_id)
  printNotes(meta.notes)
}

async function list(options: Json & { all?: boolean }) {
  const entries = await withClient(async (client) => {
    const listed = await client.call('agent.list', { all: options.all === true })
    if (!options.json) await noteOrphans(client)
    return listed
  })
  if (options.json) return printJson(entries.map((entry) => ({ ...flat(entry), running: entry.running })))
  const rows = entries.map(({ id, meta, why }) => [
    id,
    showAll(meta?.invocation_name ?? ''),
    meta?.strategy ?? '',
    paintState(meta?.outcome ?? meta?.status ?? ''),
    why === null
      ? showAll(meta?.sandbox_branch ?? meta?.sandbox_path ?? '')
      : paint('red', `broken: ${showAll(why)}`),
  ])
  print(
    rows.length === 0
      ? 'No sandboxes.'
      : renderTable(['id', 'name', 'strategy', 'status', 'where'], rows, ['name']),
  )
}

async function show(id: string, options: Json & { commit?: string }) {
  if (options.commit !== undefined) {
    const { commit } = options
    const patch = await withClient((client) => client.call('agent.commit', { id, commit }))
    if (options.json) return printJson({ commit, ...patch })
    return process.stdout.isTTY ? print(showLines(patch.text)) : void process.stdout.write(bytesOf(patch))
  }
  const entry = await withClient((client) => client.call('agent.get', { id }))
  if (options.json) return printJson({ ...flat(entry), commits: entry.commits, missing: entry.missing })
  const { meta } = entry
  const fields: [string, string][] = [['id', entry.id]]
  if (entry.why !== null) fields.push(['broken', paint('red', showAll(entry.why))])
  if (meta !== null) {
    const name = meta.invocation_name ?? ''
    if (name !== '') fields.push(['name', showAll(name)])
    fields.push(['status', paintState(meta.status)], ['strategy', `${meta.strategy}, ${meta.driver}`])
    fields.push(['sandbox', showAll(meta.sandbox_path)])
    if (meta.sandbox_branch !== null) fields.push(['branch', meta.sandbox_branch])
    if (meta.base_commit !== null) fields.push(['base', meta.base_commit])
    if (meta.integration_worktree_id !== null) fields.push(['worktree', meta.integration_worktree_id])
    for (const note of meta.notes) fields.push(['note', showAll(note)])
    if (meta.outcome !== null) fields.push(['outcome', meta.outcome])
    if (meta.archive !== null) fields.push(['archive', showAll(meta.archive)])
  }
  for (const { commit, subject, on_no_branch: isLeft, repository } of entry.commits) {
    const left = isLeft === true ? ' (on no branch)' : ''
    const where = repository === undefined ? '' : ` (in ${showAll(repository)})`
    fields.push(['commit', `${commit.slice(0, 12)} ${showAll(subject)}${left}${where}`])
  }
  for (const { path, why } of entry.missing)
    fields.push(['missing', paint('red', `${showAll(path)}: ${showAll(why)}`)])
  print(renderFields(fields))
}

type LandOptions = Json & {
  readonly how: string
  readonly message?: string
  readonly all?: boolean
  readonly includeIgnored?: boolean
  readonly whenIdle?: boolean
}

async function land(id: string, options: LandOptions) {
  const { how, message } = options
  if (how !== 'merge' && how !== 'squash' && how !== 'apply') {
    throw new OrangeryError('usage.how', `--how ${how}: not a way to land`, {
      kind: 'usage',
      hint: 'Ways are merge, squash and apply.',
    })
  }
  const result = await withClient((client) =>
    client.call('agent.land', {
      id,
      how,
      all: options.all === true,
      include_ignored: options.includeIgnored === true,
      when: options.whenIdle === true ? 'idle' : 'now',
      ...(message === undefined ? {} : { message }),
    }),
  )
  if (options.json) return printJson(result)
  for (const { path, why } of result.skipped) print(`skipped  ${showAll(path)}: ${showAll(why)}`)
  printNotes(result.notes ?? [])
  const files = plural(result.applied.length, 'file')
  if (result.waits_for !== undefined)
    print(`${result.id}: lands when ${result.waits_for.join(', ')} has ended`)
  else if (!result.landed)
    print(`${result.id}: ${files} landed in ${showAll(result.tree)}, the rest waits for a decision`)
  else if (result.commit === null)
    print(
      how === 'apply'
        ? `${result.id}: ${files} landed in ${showAll(result.tree)}, not committed`
        : `${result.id}: ${files} landed in ${showAll(result.tree)}; ${result.branch} holds all of it already`,
    )
  else {
    // Its files may have landed before, by `changeset apply`.
    const what = result.applied.length === 0 ? 'its work is' : `${files} landed`
    print(`${result.id}: ${what} on ${result.branch} as ${result.commit.slice(0, 12)}`)
  }
}

async function discard(id: string, options: Json) {
  const result = await withClient((client) => client.call('agent.discard', { id }))
  if (options.json) return printJson(result)
  if (result.archive === null) return print(`${result.id} is forgotten: there was nothing left of it`)
  printNotes(result.notes ?? [])
  const { files, commits } = result
  const held = [
    files === 0 ? [] : plural(files, 'change'),
    commits === 0 ? [] : plural(commits, 'commit'),
  ].flat()
  const what = held.length === 0 ? '' : `, with ${held.join(' and ')} that did not land`
  print(`${result.id} is in the archive${what}; bring it back with: orangery agent restore ${result.id}`)
}

async function archive(options: Json) {
  const records = await withClient((client) => client.call('archive.list', {}))
  if (options.json) return printJson(records)
  printNotes(
    records.flatMap(({ id, held }) => (held === undefined ? [] : [`${id} is kept beyond its time: ${held}`])),
  )
  const rows = records.map((record) => [
    record.id,
    record.kind,
    showAll(record.name),
    record.expires_at.slice(0, 10),
    record.why,
  ])
  print(
    rows.length === 0
      ? 'The archive is empty.'
      : renderTable(['id', 'what', 'name', 'kept until', 'why'], rows, ['name']),
  )
}

async function orphans(options: Json) {
  const found = await withClient((client) => client.call('workspace.orphans', {}))
  if (options.json) return printJson(found)
  print(found.length === 0 ? 'Disk, repositories and records agree.' : renderOrphans(found))
}

export function registerAgent(program: Command): void {
  const agent = program
    .command('agent')
    .summary('sandboxes of agents: start, list, show, land, discard')
    .helpCommand(false)
    .description(
      'Sandboxes of agents. A sandbox is known by its id or a unique start of it, never by its name.',
    )

  agent
    .command('start')
    .summary('make a sandbox in an integration worktree')
    .description('Makes a sandbox with a branch of its own from an integration worktree. Nothing runs yet.')
    .requiredOption('--worktree <worktree>', 'name, id or start of the id of an integration worktree')
    .option('--name <label>', 'a label to show')
    .option('--runner <runner>', 'who is meant to work there')
    .option('--mode <mode>', 'headed or headless (default: headless)')
    .option('--json', 'print the record as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  orangery agent start --worktree parser --name arch-agent --runner claude',
    )
    .action(start)

  agent
    .command('ls')
    .alias('list')
    .summary('sandboxes')
    .description('Lists sandboxes.')
    .option('--all', 'also those that are broken or over')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery agent ls --all')
    .action(list)

  agent
    .command('show <id>')
    .summary('one sandbox, and the commits made in it')
    .description('Shows one sandbox and the commits its agent made, or one of these commits as a patch.')
    .option('--commit <commit>', 'print this commit as a patch')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery agent show 20260128120500')
    .action(show)

  agent
    .command('land <id>')
    .summary('let approved changes into the integration worktree')
    .description(
      'Lands what was approved in the integration worktree, then puts the sandbox into the archive.',
    )
    .option(
      '--how <way>',
      'merge keeps the commits of the agent, squash makes one, apply makes none',
      'merge',
    )
    .option('--message <text>', 'message of the commit')
    .option('--all', 'approve everything first that is neither protected nor ignored')
    .option('--include-ignored', 'with --all: ignored files too')
    .option('--when-idle', 'where an agent runs on the same folders, land when it has ended')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery agent land 20260128120500 --all --how squash')
    .action(land)

  agent
    .command('discard <id>')
    .summary('end a sandbox without landing it')
    .description(
      'Ends a sandbox. Its branch and everything written in it are kept in the archive for 30 days.',
    )
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery agent discard 20260128120500')
    .action(discard)

  agent
    .command('archive')
    .summary('what was put away, and until when it is kept')
    .description('Lists what was put away, and until when it is kept.')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery agent archive')
    .action(archive)

  agent
    .command('restore <id>')
    .summary('bring one back from the archive')
    .description('Brings a sandbox back from the archive: branch, tree and everything written in it.')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery agent restore 20260128120500-b7c9')
    .action(restoreFromArchive)

  agent
    .command('orphans')
    .summary('what belongs to nothing')
    .description(
      'Compares disk, repositories and records, and lists what belongs to nothing. Deletes nothing.',
    )
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery agent orphans')
    .action(orphans)
}
