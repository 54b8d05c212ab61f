import { isDispatchId } from '../../shared/ids.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { withClient } from '../connect.ts'
import { print, printJson } from '../terminal/print.ts'
import { showAll } from '../../shared/visible.ts'

/** What a person should know about what was made, beside the id a program reads. */
export function printNotes(notes: readonly string[]): void {
  for (const note of notes) process.stderr.write(`orangery: note: ${showAll(note)}\n`)
}

export async function restoreFromArchive(id: string, options: { readonly json?: boolean }): Promise<void> {
  if (!isDispatchId(id)) {
    throw new OrangeryError('cli.not_an_id', `${id}: not an id`, {
      kind: 'not_found',
      hint: '`orangery agent archive` lists what can be brought back.',
    })
  }
  const record = await withClient((client) => client.call('archive.restore', { id }))
  if (options.json) printJson(record)
  else print(`${record.id} is back in ${showAll(record.origin)}`)
}
