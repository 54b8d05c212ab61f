import type { Command } from 'commander'
import type { DiskUse } from '../../shared/disk.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { showAll } from '../../shared/visible.ts'
import { withClient } from '../connect.ts'
import { print, printJson } from '../terminal/print.ts'
import { paintState } from '../terminal/style.ts'
import { renderFields, renderTable } from '../terminal/table.ts'
import { plural, size } from '../terminal/words.ts'

/** `500MB`, `2 GB` or `all`. Not without a unit: who forgets one would lose nearly every log. */
function parseSize(text: string): number | null {
  if (text === 'all') return null
  const match = /^(\d+(?:\.\d+)?)\s*(?:b|([kmgt])i?b?)$/i.exec(text.trim())
  const power = ['', 'k', 'm', 'g', 't'].indexOf((match?.[2] ?? '').toLowerCase())
  const bytes = Math.round(Number(match?.[1]) * 1024 ** power)
  if (!Number.isSafeInteger(bytes)) {
    throw new OrangeryError('usage.size', `--keep-logs ${text}: not a size`, {
      kind: 'usage',
      hint: 'Write 500MB, 2GB or all.',
    })
  }
  return bytes
}

function renderUse(use: DiskUse): string {
  const { records, backups, objects, other } = use.shared
  const facts = renderFields([
    ['total', size(use.total)],
    [
      'logs',
      `${size(use.logs)}, ${use.logs_kept === null ? 'all kept' : `kept up to ${size(use.logs_kept)}`}`,
    ],
    ['records', `${size(records)}, backups ${size(backups)}`],
    ['captures', `${size(objects)} shared`],
    ['other', size(other)],
  ])
  if (use.dispatches.length === 0) return facts
  const rows = use.dispatches.map((each) => [
    each.id,
    each.status === null ? '-' : paintState(each.status),
    size(each.total),
    `${size(each.workspace)}${each.unreadable > 0 ? ` and ${plural(each.unreadable, 'closed folder')}` : ''}`,
    size(each.captures),
    size(each.events + each.output),
    each.removed.length > 0 ? each.removed.map(({ log }) => `${log} removed`).join(', ') : '',
    showAll(each.name ?? ''),
  ])
  return `${facts}\n\n${renderTable(['id', 'status', 'total', 'workspace', 'captures', 'logs', '', 'name'], rows)}`
}

export function registerDisk(program: Command): void {
  program
    .command('disk')
    .summary('what each dispatch costs on disk')
    .description(
      'Says what each dispatch costs on disk. What waits for review is there twice: as the workspace, where the agent may go on, and as captures, which nobody changes any more. Nothing is deleted by itself but logs past a size you set: terminal output before event logs, the oldest first, never of a dispatch that runs or waits for review.',
    )
    .option('--keep-logs <size>', 'keep logs up to this size together: 500MB, 2GB or all')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExamples:\n  orangery disk\n  orangery disk --keep-logs 500MB')
    .action((options: { json?: boolean; keepLogs?: string }) => {
      const bytes = options.keepLogs === undefined ? undefined : parseSize(options.keepLogs)
      return withClient(async (client) => {
        if (bytes !== undefined) {
          const { removed } = await client.call('disk.keep_logs', { bytes })
          if (!options.json) print(`${plural(removed.length, 'log')} removed`)
        }
        const use = await client.call('disk.use', {})
        if (options.json) printJson(use)
        else print(renderUse(use))
      })
    })
}
