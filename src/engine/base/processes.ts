import { readFile } from 'node:fs/promises'

/** When a process started, in the kernel's ticks: with the pid it names one process for ever. Linux only. */
export async function startTicks(pid: number): Promise<number> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
    // The program's name stands in brackets and may hold anything, brackets and spaces too.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    // A zombie is dead and only waits for its parent, who may never look.
    return fields[0] === 'Z' || fields[0] === 'X' ? 0 : Number(fields[19])
  } catch {
    return 0
  }
}

let own: Promise<number> | undefined

/** When we started; it does not change. */
export function ownStartTicks(): Promise<number> {
  return (own ??= startTicks(process.pid))
}

/** True while exactly that process lives; a later one with the same pid is another. */
export async function isAlive(pid: number, ticks: number): Promise<boolean> {
  if (ticks !== 0) return (await startTicks(pid)) === ticks
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
