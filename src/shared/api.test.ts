import { expect, test } from 'vitest'
import { spawnInputSchema } from './api.ts'

test('a spawn with a field that nobody knows is refused: it may be a contract that is misspelt', () => {
  const request = { roots: ['/shop'], command: ['true'] }
  expect(spawnInputSchema.safeParse({ ...request, sandbox_spec: '{}' }).success).toBe(true)
  const { error } = spawnInputSchema.safeParse({ ...request, sandboxSpec: '{}' })
  expect(error?.issues).toMatchObject([{ code: 'unrecognized_keys', keys: ['sandboxSpec'] }])
})
