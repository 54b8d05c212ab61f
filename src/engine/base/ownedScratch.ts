import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { ensurePrivateDir } from './files.ts'
import type { Layout } from './paths.ts'
import { ownStartTicks } from './processes.ts'

/** A folder for the moment. It names its owner: one whose owner was killed is taken away by whoever sweeps next. */
export async function makeScratch(directory: string): Promise<AsyncDisposable & { readonly folder: string }> {
  await ensurePrivateDir(directory)
  const folder = await mkdtemp(join(directory, `scratch-${process.pid}.${await ownStartTicks()}-`))
  return {
    folder,
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  }
}

/** Where what waits for a dispatch is made: on the file system of the workspaces. */
export const sparePlaces = ({ dataDir }: Pick<Layout, 'dataDir'>): string => join(dataDir, 'spares')

/** Who made it; null where the name is no such folder's. */
export function ownerOfScratch(name: string): { readonly pid: number; readonly ticks: number } | null {
  const [, pid, ticks] = /^scratch-(\d+)\.(\d+)-/.exec(name) ?? []
  return pid === undefined || ticks === undefined ? null : { pid: Number(pid), ticks: Number(ticks) }
}
