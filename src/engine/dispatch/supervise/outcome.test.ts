import { expect, test } from 'vitest'
import type { SandboxEnd } from '../../base/sandbox.ts'
import type { Job } from '../prepare/job.ts'
import { judge } from './outcome.ts'

const job = { command: ['true'], contract: { limits: {} } } as unknown as Job
const ended = (changes: Partial<SandboxEnd>): SandboxEnd => ({
  exitCode: 137,
  signal: 'SIGKILL',
  lost: null,
  unstartable: false,
  limits: [],
  likelyLimits: [],
  resources: { wall_ms: 1, cpu_ms: 1, max_rss_mb: 1 },
  ...changes,
})

test('who was stopped for a disk that others may have filled reads that, and who filled it himself does not', () => {
  const errorOf = (changes: Partial<SandboxEnd>) => judge(ended(changes), null, job).error
  expect(errorOf({ likelyLimits: ['disk'] })).toMatch(
    /likely reached its disk limit: .*others on the same disk/,
  )
  expect(errorOf({ limits: ['disk'], likelyLimits: ['pids'] })).toBe('ended after it reached its disk limit')
})
