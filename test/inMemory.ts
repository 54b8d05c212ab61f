import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../src/engine/base/process.ts'

/**
 * A test that crashes at each of a thousand operations waits for the disk most of the time. Its folders are made in
 * memory instead, where the kernel lets files there have the attributes that layers need.
 */
export async function makeFoldersInMemory(): Promise<void> {
  const folder = await mkdtemp('/dev/shm/orangery-').catch(() => null)
  if (folder === null) return
  const file = join(folder, 'file')
  await writeFile(file, '')
  const set = await run('setfattr', ['-n', 'user.orangery', '-v', '1', file]).catch(() => null)
  await rm(folder, { recursive: true })
  if (set?.code === 0) process.env['TMPDIR'] = '/dev/shm'
}
