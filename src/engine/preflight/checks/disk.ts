import { statfs } from 'node:fs/promises'
import type { CheckResult } from '../../../shared/doctor.ts'

/** Below this a run would soon fail in the middle of a write, and a capture might not fit. */
const leastFreeMb = 64

export async function checkDisk(dataDir: string, wantedMb: number | undefined): Promise<CheckResult> {
  const facts = await statfs(dataDir)
  const freeMb = Math.floor((facts.bavail * facts.bsize) / (1024 * 1024))
  const needed = Math.max(leastFreeMb, wantedMb ?? 0)
  const ok = freeMb >= needed
  return {
    name: 'disk',
    ok,
    detail: `${freeMb} MB free where changesets are kept${ok ? '' : `, ${needed} MB needed`}`,
    fix: ok ? null : `Free some space on the disk of ${dataDir}, or set ORANGERY_DATA_DIR to another one.`,
  }
}
