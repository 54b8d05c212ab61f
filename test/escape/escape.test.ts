import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { expect, test } from 'vitest'
import { proofs } from './proofs.ts'
import { canRunAs, patienceMs, judgeSuiteAs, us, type Who } from './runAs.ts'
import { suite } from './suite.ts'
import { summarise } from './table.ts'
import { titlesIn } from './titles.ts'

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
    // About half of them in a sandbox that stood before its dispatch, the other half by the other user.
    expect(judgements.filter(({ staged }) => staged).length).toBeGreaterThan(suite.length / 4)
    // An ordinary user by himself cannot prepare what root can: then these say nothing.
    const judged = judgements.filter(({ isUnprepared }) => isUnprepared !== true)
    if (us === 'root') expect(judged).toEqual(judgements)
    else if (judged.length < judgements.length) console.warn('not run: what only root can prepare')
    for (const { id, verdict } of judged) {
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
  for (const { ids } of proofs) for (const id of ids) expect(page, id).toContain(`\`${id}\``)
})

test('the test that makes each other attack is there by its title, and is not switched off', async () => {
  const folder = join(import.meta.dirname, '../..')
  const titles = new Map<string, Promise<readonly string[]>>()
  const titlesOf = (file: string) => {
    const known = titles.get(file) ?? readFile(file, 'utf8').then((text) => titlesIn(file, text))
    titles.set(file, known)
    return known
  }
  for (const { folder: place, test: name } of proofs) {
    const files = (await readdir(join(folder, place), { recursive: true })).filter((file) =>
      /\.(?:test|spec)\.ts$/.test(file),
    )
    const found = await Promise.all(files.map((file) => titlesOf(join(folder, place, file))))
    expect(
      found.flat().some((title) => title.includes(name)),
      `${place}: ${name}`,
    ).toBe(true)
  }
})

test('the README shows each verdict of the page, and how many attacks were blocked, and for whom', async () => {
  const top = join(import.meta.dirname, '../..')
  const [page = '', readme = ''] = await Promise.all(
    ['docs/escape-table.md', 'README.md'].map((name) => readFile(join(top, name), 'utf8')),
  )
  const cells = (text: string) => {
    const lines = text.split('\n').map((line) =>
      line
        .trim()
        .split(/ *\| */)
        .join('|'),
    )
    return lines.filter((line) => line !== '' && !/^[-|]*$/.test(line))
  }
  const shown = /<!-- attacks -->(.*)<!-- \/attacks -->/s.exec(readme)?.[1] ?? ''
  expect(cells(shown), 'write them again with node test/escape/write.ts').toEqual(cells(summarise(page)))
  expect(cells(shown).filter((line) => line.startsWith('|`'))).toHaveLength(suite.length)
})

/** Of every file below a folder: the attacks that its comments name, or for documents the table of rules. */
async function namedIn(folder: string, pattern: RegExp): Promise<ReadonlyMap<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter(({ name }) => /\.(?:tsx?|md)$/.test(name) && !name.endsWith('.test.ts'))
  const found = new Map<string, string>()
  for (const { parentPath, name } of files.filter((entry) => entry.isFile())) {
    const text = await readFile(join(parentPath, name), 'utf8')
    for (const [, ids = ''] of text.matchAll(pattern)) for (const id of ids.split(/, */)) found.set(id, name)
  }
  return found
}

test('every attack that a comment of the source or a document names has a case, or a test that makes it', async () => {
  const known = new Set([...suite.map(({ id }) => id), ...proofs.flatMap(({ ids }) => ids)])
  const top = join(import.meta.dirname, '../..')
  const comment = /\(escape: ([^)]+)\)/g
  const named = [
    ...(await namedIn(join(top, 'src'), comment)),
    ...(await namedIn(join(top, 'docs'), comment)),
  ]
  expect(named.length).toBeGreaterThan(50)
  expect(named.flatMap(([id, file]) => (known.has(id) ? [] : [`${file}: ${id}`]))).toEqual([])
  const rules = await readFile(join(top, 'docs/sandbox.md'), 'utf8')
  const table = rules.slice(rules.indexOf('| rule '), rules.indexOf('## The boundary while it runs'))
  const proved = table
    .split('\n')
    .slice(2)
    .flatMap(
      (line) =>
        line
          .split(' | ')
          .at(-1)
          ?.match(/[\w-]+(?=`)|\w+\.test/g) ?? [],
    )
  const tests = await Promise.all(
    ['src/engine/sandbox', 'test/sandbox'].map((place) => readdir(join(top, place), { recursive: true })),
  )
  const files = new Set(tests.flat().map((name) => basename(name, '.ts')))
  expect(proved.filter((id) => !known.has(id) && !files.has(id))).toEqual([])
})
