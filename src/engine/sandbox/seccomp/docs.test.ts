import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { expect, test } from 'vitest'
import { affinityRule, rules, setGidRules } from './rules.ts'

const top = join(import.meta.dirname, '../../../..')

/** What else stands there as a word in code. */
const notCalls = new Set(['lo', 'nosuid'])

/** The table of rules: what each row names, and by what it is said to be proved. */
async function readRows(): Promise<
  readonly { readonly names: string; readonly proofs: readonly string[] }[]
> {
  const page = await readFile(join(top, 'docs/sandbox.md'), 'utf8')
  const start = page.indexOf('| rule ')
  const lines = page.slice(start, page.indexOf('\n\n', start)).split('\n').slice(2)
  return lines.map((line) => {
    const cells = line.split(' | ').map((cell) => cell.replace(/^\||\|$/g, '').trim())
    return { names: cells[0] ?? '', proofs: (cells.at(-1) ?? '').split(', ').map((one) => one.trim()) }
  })
}

test('each call that the filter refuses is in a row of docs/sandbox.md, whose proofs are there', async () => {
  const rows = await readRows()
  const attacks = await readFile(join(top, 'docs/escape-table.md'), 'utf8')
  const [cases = '', others = ''] = attacks.split('\n## Attacked by other tests')
  const places = await Promise.all(
    ['src/engine/sandbox', 'test/sandbox'].map((place) => readdir(join(top, place), { recursive: true })),
  )
  const tests = new Set(places.flat().map((name) => basename(name)))
  const isProof = (proof: string) => {
    const id = /^`([\w-]+)`$/.exec(proof)?.[1]
    // A case has a row that begins with it; the page itself is held to the suite by the test of the suite.
    if (id !== undefined)
      return cases.includes(`\n| \`${id}\` `) || new RegExp(`^\\|.*\`${id}\`.*\\|.*\\|`, 'm').test(others)
    return /^\w+\.test$/.test(proof) && tests.has(`${proof}.ts`)
  }
  expect(rows.length).toBeGreaterThan(20)
  expect(rows.flatMap(({ names, proofs }) => (proofs.every(isProof) ? [] : [`${names}: ${proofs}`]))).toEqual(
    [],
  )
  const all = [...rules, ...setGidRules, affinityRule]
  expect(all.filter(({ call }) => !rows.some(({ names }) => names.includes(`\`${call}\``)))).toEqual([])
  // And the page promises none that is not there.
  const isRuled = (name: string) => all.some(({ call }) => call === name)
  const promised = rows.flatMap(({ names }) =>
    [...names.matchAll(/`([a-z_0-9]+)`/g)].map(([, name = '']) => name),
  )
  expect(promised.filter((name) => !isRuled(name) && !notCalls.has(name))).toEqual([])
  expect(all.every(({ stops }) => stops.length > 10)).toBe(true)
})
