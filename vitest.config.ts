import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { LongestFirst } from './test/longestFirst.ts'

// Two kinds: `unit` sits beside its source and is quick; `slow` starts real sandboxes at length. Files of both run
// side by side: every test has folders of its own and looks for leftovers only of these.
export default defineConfig({
  test: {
    // Vitest leaves one core free by itself: on two that halves the speed.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: 'unit',
          include: ['src/**/*.test.{ts,tsx}'],
          environment: 'node',
          // Loading the modules anew for each of the files took longer than the tests did.
          isolate: false,
          testTimeout: 20_000,
          // On a busy machine a second is no time; what comes sooner is not waited for.
          expect: { poll: { timeout: 10_000 } },
          hookTimeout: 20_000,
        },
      },
      {
        test: {
          name: 'slow',
          // Supervisors of the build that `npm test` has just made start in a third of the time.
          env: { ORANGERY_BUNDLES: join(import.meta.dirname, 'out', 'main') },
          include: ['test/**/*.test.ts'],
          environment: 'node',
          testTimeout: 180_000,
          expect: { poll: { timeout: 30_000 } },
          hookTimeout: 120_000,
        },
      },
    ],
  },
})
