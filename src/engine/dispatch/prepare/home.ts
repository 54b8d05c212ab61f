import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import { ensurePrivateDir, reopenDir } from '../../base/files.ts'
import { createRepoLock } from '../../base/lock.ts'
import type { Workspace } from '../../base/workspace.ts'
import type { Job } from './job.ts'
import type { Parts } from '../parts.ts'

const ownHome = (workspaceDir: string): string => join(workspaceDir, 'home')

/** Folder that is the agent's home: its own for this dispatch, or kept for the agent as its card says. */
export function homeOf(parts: Pick<Parts, 'layout'>, job: Pick<Job, 'card'>, workspaceDir: string): string {
  const keep = job.card.sandboxRequirements.home === 'keep'
  return keep ? join(parts.layout.homes, job.card.id) : ownHome(workspaceDir)
}

/** A home that is kept may have been closed by who had it last. */
export async function prepareHome(home: string): Promise<void> {
  await ensurePrivateDir(home)
  reopenDir(home)
}

/** Who tidies up after killed processes holds each lock for a moment. */
const askingMs = 200
const longestName = 120

type Home = AsyncDisposable & {
  readonly path: string
  /** Why it is not the one that its card asks for; null where it is. */
  readonly note: string | null
}

/**
 * The home of one run, ready for it. One that is kept has one run at a time: a socket or pipe in it would lead from one
 * sandbox into the other, past the boundary of either. Who finds it taken has a home of its own. (escape: shared-kept-home)
 */
export async function takeHome(
  parts: Pick<Parts, 'layout'>,
  job: Pick<Job, 'card' | 'contract' | 'continues'>,
  workspace: Pick<Workspace, 'dir'>,
): Promise<Home> {
  const asked = homeOf(parts, job, workspace.dir)
  const own = ownHome(workspace.dir)
  // At level 0 the agent has the user's own.
  const mayShare = asked !== own && job.contract.level > 0
  // What it said in an earlier turn is in the home it had then.
  const wasOther = mayShare && job.continues !== null && existsSync(own)
  const held = mayShare && !wasOther ? await holdHome(parts, job.card.id) : null
  const isOther = mayShare && held === null
  const path = isOther ? own : asked
  const { id } = job.card
  const note = wasOther
    ? `an earlier turn had a home of its own, and not the one kept for ${id}: this one goes on in it`
    : `another run of ${id} has its kept home: this one has its own, which is not kept`
  const home: Home = {
    path,
    note: isOther ? note : null,
    [Symbol.asyncDispose]: async () => held?.[Symbol.asyncDispose](),
  }
  try {
    await prepareHome(path)
  } catch (error) {
    await home[Symbol.asyncDispose]()
    throw error
  }
  return home
}

/** Null where another run has it. */
async function holdHome({ layout }: Pick<Parts, 'layout'>, card: string): Promise<AsyncDisposable | null> {
  const name = `home-${card}`.slice(0, longestName)
  return createRepoLock(layout)
    .acquire(name, { timeoutMs: askingMs })
    .catch((error: unknown) => {
      if (error instanceof OrangeryError && error.kind === 'busy') return null
      throw error
    })
}
