import { expect, test } from 'vitest'
import { commitRequestSchema } from '../../shared/changeset.ts'
import { commitOf } from './CommitFields.tsx'

const draft = { branch: ' main ', message: '', own: false, hooks: false, sign: false }

test('a commit is signed only where that was asked for, and never one that the agent made itself', () => {
  const asked = (change: Partial<typeof draft>) =>
    commitRequestSchema.parse(commitOf({ ...draft, ...change }))
  expect(asked({})).toEqual({ branch: 'main', own: false, hooks: false })
  expect(asked({ sign: true }).sign).toBe(true)
  expect(asked({ sign: true, own: true }).sign).toBeUndefined()
})
