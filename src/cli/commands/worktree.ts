import type { Command } from 'commander'
import type { SandboxOfWorktree, WorktreeEntry } from '../../shared/invocation.ts'
import { withClient } from '../connect.ts'
import { print, printJson } from '../terminal/print.ts'
import { paint } from '../terminal/style.ts'
import { renderFields, renderTable } from '../terminal/table.ts'
import { takenBackOnSignal } from '../terminal/takenBackOnSignal.ts'
import { showAll } from '../../shared/visible.ts'
import { plural } from '../terminal/words.ts'
import { printNotes, restoreFromArchive } from './archive.ts'

type Json = { readonly json?: boolean }

/** The record with what was found on disk beside it: one flat object. */
const flat = (entry: WorktreeEntry) => ({
  id: entry.id,
  repo_id: entry.repo_id,
  ...entry.meta,
  broken: entry.broken,
  why: entry.why,
})

async function create(options: Json & { repo: string; name: string; base?: string }) {
  const { repo, name, base } = options
  const input = { repo, name, ...(base === undefined ? {} : { base }) }
  const meta = await takenBackOnSignal('worktree create', (signal) =>
    withClient((client) => client.call('worktree.create', input, signal)),
  )
  if (meta === null) return
  if (options.json) return printJson(meta)
  print(meta.worktree_id)
  printNotes(meta.notes)
}

async function list(options: Json & { all?: boolean }) {
  const entries = await withClient((client) => client.call('worktree.list', { all: options.all === true }))
  if (options.json) return printJson(entries.map((entry) => ({ ...flat(entry), sandboxes: entry.sandboxes })))
  const rows = entries.map(({ id, meta, why, sandboxes }) => [
    id,
    showAll(meta?.name ?? ''),
    showAll(meta?.branch ?? ''),
    sandboxCount(sandboxes),
    why === null
      ? (meta?.outcome ?? showAll(meta?.tree_path ?? ''))
      : paint('red', `broken: ${showAll(why)}`),
  ])
  print(
    rows.length === 0
      ? 'No integration worktrees.'
      : renderTable(['id', 'name', 'branch', 'sandboxes', 'tree'], rows, ['branch', 'name']),
  )
}

function sandboxCount(sandboxes: readonly SandboxOfWorktree[]): string {
  const running = sandboxes.filter((each) => each.running).length
  const idle = sandboxes.length - running
  return [running === 0 ? [] : `${running} at work`, idle === 0 ? [] : `${idle} idle`].flat().join(', ')
}

async function show(id: string, options: Json) {
  const entry = await withClient((client) => client.call('worktree.get', { id, near: process.cwd() }))
  if (options.json) return printJson({ ...flat(entry), stakes: entry.stakes })
  const { meta, stakes } = entry
  const fields: [string, string][] = [['id', entry.id]]
  if (entry.why !== null) fields.push(['broken', paint('red', showAll(entry.why))])
  if (meta !== null) {
    fields.push(['name', showAll(meta.name)], ['branch', meta.branch], ['base', meta.base_commit])
    fields.push(
      ['tree', showAll(meta.tree_path)],
      ['repository', showAll(meta.repo_path)],
      ['created', meta.created_at],
    )
    if (meta.outcome !== null) fields.push(['outcome', meta.outcome])
    if (meta.archive !== null) fields.push(['archive', showAll(meta.archive)])
  }
  for (const path of stakes?.uncommitted ?? []) fields.push(['uncommitted', showAll(path)])
  for (const commit of stakes?.unmerged ?? []) fields.push(['only here', showAll(commit)])
  for (const what of stakes?.unfinished ?? []) fields.push(['unfinished', what])
  for (const path of stakes?.ignored.slice(0, 20) ?? []) fields.push(['ignored', showAll(path)])
  const more = (stakes?.ignored.length ?? 0) - 20
  if (more > 0) fields.push(['ignored', `and ${more} more`])
  print(renderFields(fields))
}

async function remove(id: string, options: Json & { force?: boolean }) {
  const removed = await withClient((client) =>
    client.call('worktree.remove', { id, near: process.cwd(), force: options.force === true }),
  )
  if (options.json) return printJson(removed)
  const { uncommitted, unmerged, unfinished, ignored } = removed.stakes
  const held = [
    ...(unmerged.length + uncommitted.length === 0
      ? []
      : [plural(unmerged.length, 'commit'), plural(uncommitted.length, 'file')]),
    ...unfinished,
    ...(ignored.length === 0 ? [] : [`what git ignores (${someNames(ignored)})`]),
  ]
  const with_ = held.length === 0 ? '' : `, with ${held.join(' and ')}`
  printNotes(removed.notes ?? [])
  print(
    `${removed.id} is in the archive${with_}; bring it back with: orangery worktree restore ${removed.id}`,
  )
}

function someNames(paths: readonly string[]): string {
  const shown = paths.slice(0, 3).map(showAll).join(', ')
  return paths.length > 3 ? `${shown} and ${paths.length - 3} more` : shown
}

export function registerWorktree(program: Command): void {
  const worktree = program
    .command('worktree')
    .summary('integration worktrees: create, list, show, remove')
    .helpCommand(false)
    .description('Integration worktrees: trees of your repository that agents work from and never write.')

  worktree
    .command('create')
    .summary('make an integration worktree of a repository')
    .description('Makes a worktree on a branch of its own, in the data folder, and prints its id.')
    .requiredOption('--repo <folder>', 'a folder of the repository')
    .requiredOption('--name <name>', 'its name, part of the branch')
    .option('--base <ref>', 'what to start from (default: HEAD)')
    .option('--json', 'print the record as JSON')
    .addHelpText('after', '\nExample:\n  orangery worktree create --repo . --name parser --base main')
    .action(create)

  worktree
    .command('ls')
    .alias('list')
    .summary('integration worktrees')
    .description('Lists integration worktrees.')
    .option('--all', 'also those that are broken or removed')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery worktree ls --all')
    .action(list)

  worktree
    .command('show <worktree>')
    .summary('one worktree, and what it holds that is nowhere else')
    .description('Shows one worktree, and the work in it that is nowhere else.')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery worktree show parser')
    .action(show)

  worktree
    .command('rm <worktree>')
    .summary('take one away; its work goes to the archive')
    .description(
      'Takes a worktree and its branch away. Work that is nowhere else needs --force; it is kept for 30 days.',
    )
    .option('--force', 'also with work in it that is nowhere else')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery worktree rm parser')
    .action(remove)

  worktree
    .command('restore <id>')
    .summary('bring one back from the archive')
    .description('Brings a removed worktree back: tree, branch and uncommitted work.')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery worktree restore 20260128120000-a3f2')
    .action(restoreFromArchive)
}
