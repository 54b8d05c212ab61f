import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { canRunAs, patienceMs, judgeSuiteAs, type Who } from './runAs.ts'
import { suite } from './suite.ts'
import { elsewhere } from './table.ts'

async function tableVerdict(id: string, who: Who): Promise<string | undefined> {
  const table = await readFile(join(import.meta.dirname, '../../docs/escape-table.md'), 'utf8')
  const rows = table.split('\n').map((line) => line.split('|').map((cell) => cell.trim()))
  const cells = rows.find(([, first]) => first === `\`${id}\``)
  return cells?.[who === 'root' ? 3 : 4]
}

test.for(['root', 'ordinary user'] as const)(
  'as %s no attack of the suite breaks out, and each is shown to break out without its guard',
  { timeout: patienceMs + 60_000 },
  async (who, { skip }) => {
    if (!(await canRunAs(who))) skip(`cannot become ${who} here, or it cannot read this checkout`)
    const judgements = await judgeSuiteAs(who)
    expect(judgements.map(({ id }) => id)).toEqual(suite.map(({ id }) => id))
    const wrong = judgements.filter(({ verdict }) => verdict === 'BREAKOUT' || verdict === 'INCONCLUSIVE')
    expect(wrong.map(({ id, verdict, why }) => `${id}: ${verdict}: ${why}`)).toEqual([])
    for (const { id, verdict } of judgements) {
      const written = verdict === 'NOT_APPLICABLE' ? '—' : verdict
      expect(await tableVerdict(id, who), `docs/escape-table.md on ${id}`).toBe(written)
    }
  },
)

test('the page names every case, and for each attack that others make a test there is', async () => {
  const folder = join(import.meta.dirname, '../..')
  const page = await readFile(join(folder, 'docs/escape-table.md'), 'utf8')
  const rows = new Set(page.split('\n').map((line) => line.split(/ *\| */).join('|')))
  const stale = suite.filter(
    ({ id, attack, guard }) =>
      ![...rows].some((row) => row.startsWith(`|\`${id}\`|${attack}|`) && row.endsWith(`|${guard}|`)),
  )
  expect(stale.map(({ id }) => `${id}: write the page again with node test/escape/write.ts`)).toEqual([])
  for (const { file, test: name } of elsewhere) {
    expect(page, file).toContain(`\`${file}\``)
    expect(await readFile(join(folder, file), 'utf8'), file).toContain(name)
  }
})
