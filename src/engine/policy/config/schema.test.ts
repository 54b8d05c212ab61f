import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'jsonc-parser'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { configJsonSchema } from '../../../shared/configJsonSchema.ts'
import { parseConfig } from './read.ts'
import { publishedSchema } from './schema.main.ts'

const root = join(import.meta.dirname, '../../../..')
const published = z.fromJSONSchema(JSON.parse(publishedSchema()))

function examples(document: string): string[] {
  const text = readFileSync(join(root, document), 'utf8')
  return [...text.matchAll(/```jsonc?\n(.*?)```/gs)].map(([, example]) => example ?? '')
}

test('the published schema is what the program checks by (node src/engine/policy/config/schema.main.ts writes it)', () => {
  expect(publishedSchema()).toBe(configJsonSchema())
})

test.each(['README.md', 'docs/configuration.md'])(
  'the example in %s is valid by the published schema and for the program',
  (document) => {
    const [example, ...more] = examples(document)
    expect(more).toEqual([])
    const errors: never[] = []
    const value: unknown = parse(example!, errors, { allowTrailingComma: true })
    expect(errors).toEqual([])
    expect(published.safeParse(value).error).toBeUndefined()
    expect(parseConfig({ file: document, text: example!, sha256: '' }).warnings).toEqual([])
  },
)

test.each([
  { sandboxBoundaries: { plan: 'readable' } },
  { sandboxEscalationPolicy: 'always' },
  { sandboxEnabeld: true },
  { sandboxApprovedEscalations: [{ hosts: [] }] },
  { agentInactivityTimeout: -1 },
])('the published schema refuses %j', (value) => {
  expect(published.safeParse(value).success).toBe(false)
})

test('docs/configuration.md names every key of the schema and no other', () => {
  const { properties } = JSON.parse(publishedSchema()) as { properties: Record<string, unknown> }
  const text = readFileSync(join(root, 'docs/configuration.md'), 'utf8')
  const named = [...text.matchAll(/^\| `(\w+)`/gm)].map(([, key]) => key)
  expect(named.sort()).toEqual(
    Object.keys(properties)
      .filter((key) => key !== '$schema')
      .sort(),
  )
})
