import { expect, test } from 'vitest'
import type { DispatchRow, DispatchStatus } from '../../shared/dispatch.ts'
import { inTheWay } from './inTheWay.ts'

const row = (root: string, status: DispatchStatus = 'running') => ({ roots: [root], status }) as DispatchRow

test('whoever runs on the folder, in it or around it is in the way', () => {
  const rows = [row('/a/b'), row('/a'), row('/a/b/c'), row('/')]
  expect(inTheWay(rows, ['/a/b'])).toEqual(rows)
})

test('a neighbour, a name that only begins alike and whoever has ended are not', () => {
  expect(inTheWay([row('/a/c'), row('/a/bc'), row('/a/b', 'completed')], ['/a/b'])).toEqual([])
})
