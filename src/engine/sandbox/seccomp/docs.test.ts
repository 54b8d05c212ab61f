import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { affinityRule, rules } from './rules.ts'

test('docs/sandbox.md names every call the filter refuses, and no rule is without the attack it stops', async () => {
  const page = await readFile(join(import.meta.dirname, '../../../../docs/sandbox.md'), 'utf8')
  const missing = [...rules, affinityRule].filter(({ call }) => !page.includes(`\`${call}\``))
  expect(missing.map(({ call }) => call)).toEqual([])
  expect(rules.every(({ stops }) => stops.length > 10)).toBe(true)
})
