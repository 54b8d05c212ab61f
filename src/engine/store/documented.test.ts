import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { getTableColumns } from 'drizzle-orm'
import { expect, test } from 'vitest'
import { dispatchStatuses } from '../../shared/dispatch.ts'
import { migrations } from './migrations/index.ts'
import { openStore } from './index.ts'
import { changesets, dispatches } from './schema.ts'
import { scratchFolder } from './testing.ts'

const reference = await readFile(join(import.meta.dirname, '../../../docs/records.md'), 'utf8')

test('every column of a dispatch, every status and every version is in the reference', () => {
  const columns = Object.values(getTableColumns(dispatches)).map((column) => column.name)
  const words = [...columns, ...dispatchStatuses]
  expect(words.filter((word) => !reference.includes(`\`${word}\``))).toEqual([])
  const versions = [...reference.matchAll(/^\| (\d+) /gm)].map((match) => Number(match[1]))
  expect(versions).toEqual(migrations.map((migration) => migration.version))
})

test('the tables as queries see them are the tables as migrations make them', async () => {
  await using scratch = await scratchFolder()
  await using store = await openStore(scratch.path)
  for (const table of [dispatches, changesets]) {
    const made = store.database.sqlite.pragma(
      `table_info(${table === dispatches ? 'dispatches' : 'changesets'})`,
    )
    const names = new Set((made as { name: string }[]).map((column) => column.name))
    expect(Object.values(getTableColumns(table)).filter((column) => !names.has(column.name))).toEqual([])
  }
})
