import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { asTree } from './tree.ts'

const row = (id: string, parent_id: string | null = null) => ({ id, parent_id })

test('children stand under their parents, each level in the order given', () => {
  const rows = [row('c', 'a'), row('b'), row('d', 'c'), row('a'), row('e', 'a'), row('x', 'elsewhere')]
  expect(asTree(rows).map(({ row, depth }) => `${' '.repeat(depth)}${row.id}`)).toEqual([
    'b',
    'a',
    ' c',
    '  d',
    ' e',
    'x',
  ])
})

test('whatever the parents say, every row comes out exactly once', () => {
  const ids = fc.constantFrom('a', 'b', 'c', 'd', 'e')
  const rows = fc.uniqueArray(fc.record({ id: ids, parent_id: fc.option(ids) }), {
    selector: (each) => each.id,
  })
  fc.assert(
    fc.property(rows, (given) => {
      const placed = asTree(given).map((each) => each.row)
      expect(placed).toHaveLength(given.length)
      expect(new Set(placed)).toEqual(new Set(given))
    }),
  )
})
