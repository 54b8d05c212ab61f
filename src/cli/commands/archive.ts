import type { Client } from '../../shared/api.ts'
import type { Orphan } from '../../shared/invocation.ts'
import { isDispatchId } from '../../shared/ids.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { withClient } from '../connect.ts'
import { print, printJson } from '../terminal/print.ts'
import { renderTable } from '../terminal/table.ts'
import { plural } from '../terminal/words.ts'
import { showAll } from '../../shared/visible.ts'

/** What a person should know about what was made, beside the id a program reads. */
export function printNotes(notes: readonly string[]): void {
  for (const note of notes) process.stderr.write(`orangery: note: ${showAll(note)}\n`)
}

const orphanColumns = ['id', 'what', 'where', 'why', 'what helps']

export function renderOrphans(orphans: readonly Orphan[]): string {
  const rows = orphans.map(({ id, kind, place, why, hint }) => [
    id,
    kind.replaceAll('_', ' '),
    showAll(place),
    showAll(why),
    showAll(hint ?? ''),
  ])
  return renderTable(orphanColumns, rows)
}

/** Said where a person looks anyway; nothing is done about it. */
export async function noteOrphans(client: Client): Promise<void> {
  const orphans = await client.call('workspace.orphans', { fresh: false }).catch(() => [])
  if (orphans.length === 0) return
  const found = `${plural(orphans.length, 'thing')} on disk or in the records ${orphans.length === 1 ? 'belongs' : 'belong'} to nothing`
  printNotes([`${found}; see: orangery agent orphans`])
}

/** Brings one back, by its id or a unique start of it. */
export async function restoreFromArchive(
  reference: string,
  options: { readonly json?: boolean },
): Promise<void> {
  const record = await withClient(async (client) => {
    if (isDispatchId(reference)) return client.call('archive.restore', { id: reference })
    const kept = await client.call('archive.list', {})
    const [only, ...others] = kept.filter(({ id }) => reference !== '' && id.startsWith(reference))
    if (only !== undefined && others.length === 0) return client.call('archive.restore', { id: only.id })
    const why =
      only === undefined
        ? 'the archive holds nothing of this id'
        : `it could be ${[only, ...others].map(({ id }) => id).join(', ')}`
    throw new OrangeryError('cli.not_archived', `${showAll(reference)}: ${why}`, {
      kind: 'not_found',
      hint: '`orangery agent archive` lists what can be brought back.',
    })
  })
  if (options.json) printJson(record)
  else print(`${record.id} is back in ${showAll(record.origin)}`)
}
