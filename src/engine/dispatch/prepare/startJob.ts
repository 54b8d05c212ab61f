import type { Job } from './job.ts'
import type { Parts } from '../parts.ts'
import type { Supervisors } from '../supervise/supervisors.ts'

/** Hands a recorded job to a supervisor; one that cannot be handed over has failed, and its row says so. */
export async function startJob(
  { store }: Pick<Parts, 'store'>,
  supervisors: Supervisors,
  job: Job,
  before: () => Promise<unknown> = async () => {},
): Promise<void> {
  try {
    await before()
    await supervisors.start(job)
  } catch (error) {
    store.dispatches.finish(job.id, {
      status: 'failed',
      exitCode: null,
      error: error instanceof Error ? error.message : String(error),
      effective: null,
      endedAt: new Date().toISOString(),
      lastEventHash: null,
    })
    throw error
  }
}
