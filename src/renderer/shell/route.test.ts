import { expect, test } from 'vitest'
import { formatRoute, parseRoute, type Route } from './route.ts'

const routes: Route[] = [
  { page: 'home' },
  { page: 'host', tab: 'isolation' },
  { page: 'host', tab: 'approvals' },
  { page: 'host', tab: 'settings' },
  { page: 'inbox' },
  { page: 'dispatch', id: '20260128120500-b7c9', tab: null },
  { page: 'dispatch', id: '20260128120500-b7c9', tab: 'changes' },
]

test.each(routes)('the address of %j leads back to it', (route) => {
  expect(parseRoute(formatRoute(route))).toEqual(route)
})

test('an address nobody made leads home', () => {
  expect(parseRoute('#/nonsense/%00')).toEqual({ page: 'home' })
  expect(parseRoute('')).toEqual({ page: 'home' })
})
