import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { accessModes, boundaryLevels, phases } from './boundary.ts'
import { sandboxEffectiveSchema } from './effective.ts'
import { isolations } from './level.ts'
import {
  limitsSchema,
  outputModes,
  outputsSchema,
  parseSandboxSpec,
  platforms,
  sandboxSpecSchema,
  workspaceStrategies,
} from './spec.ts'

const reference = await readFile(join(import.meta.dirname, '../../docs/sandbox-spec.md'), 'utf8')

/** The first cells of the tables under a heading, up to the next heading. */
function documented(heading: string): string[] {
  const section = reference.split(/^#+ /m).find((part) => part.startsWith(`${heading}\n`)) ?? ''
  return [...section.matchAll(/^\| `(\w+)`/gm)].map((match) => match[1] as string)
}

test.each([
  ['What can be requested', sandboxSpecSchema.shape],
  ['`outputs`', outputsSchema.shape],
  ['`limits`', limitsSchema.shape],
  ['What is recorded', sandboxEffectiveSchema.shape],
])('every field under "%s" is in the reference, and nothing that is no field', (heading, shape) => {
  expect(documented(heading).toSorted()).toEqual(Object.keys(shape).toSorted())
})

test('every value a field can take is in the reference', () => {
  const values = [
    ...accessModes,
    ...boundaryLevels,
    ...phases,
    ...isolations,
    ...platforms,
    ...workspaceStrategies,
    ...outputModes,
  ]
  expect(values.filter((value) => !reference.includes(`\`${value}\``))).toEqual([])
})

test('the specs shown in the reference are valid specs', () => {
  const shown = [...reference.matchAll(/--sandbox-spec='([^']+)'/g)].map((match) => match[1] as string)
  expect(shown.length).toBeGreaterThan(0)
  for (const text of shown) expect(() => parseSandboxSpec(text), text).not.toThrow()
})
