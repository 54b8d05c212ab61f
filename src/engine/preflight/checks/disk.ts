import { statfs } from 'node:fs/promises'
import type { CheckResult } from '../../../shared/doctor.ts'
import { run } from '../../base/process.ts'

/** Below this a run would soon fail in the middle of a write, and a capture might not fit. */
const leastFreeMb = 64

/** To look at every file of a folder takes less than to copy it. */
const measureMs = 60_000

export async function checkDisk(dataDir: string, wantedMb: number | undefined): Promise<CheckResult> {
  const needed = Math.max(leastFreeMb, wantedMb ?? 0)
  return checkFree(dataDir, needed, 'where changesets are kept')
}

/** Whether a full copy of these folders fits, and leaves room to work in. */
export async function checkCopy(dataDir: string, folders: readonly string[]): Promise<CheckResult> {
  const measured = await run('du', ['-skc', '--', ...folders], { timeoutMs: measureMs }).catch(() => null)
  // What it may not look into cannot be copied either, and that is told then.
  const total = /(?:^|\n)(\d+)\ttotal\n$/.exec(measured?.stdout.toString() ?? '')?.[1]
  if (total === undefined) {
    const detail = 'how much a copy of the folders takes could not be found out'
    return { name: 'disk', ok: true, detail, fix: null }
  }
  const needed = Math.ceil(Number(total) / 1024) + leastFreeMb
  return checkFree(dataDir, needed, 'where the folders are copied to')
}

async function checkFree(dataDir: string, needed: number, where: string): Promise<CheckResult> {
  const facts = await statfs(dataDir)
  const freeMb = Math.floor((facts.bavail * facts.bsize) / (1024 * 1024))
  const ok = freeMb >= needed
  return {
    name: 'disk',
    ok,
    detail: `${freeMb} MB free ${where}${ok ? '' : `, ${needed} MB needed`}`,
    fix: ok ? null : `Free some space on the disk of ${dataDir}, or set ORANGERY_DATA_DIR to another one.`,
  }
}
