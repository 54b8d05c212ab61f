import { readFile } from 'node:fs/promises'

/** As many as this process may have open; Node has gone up to the hard limit by itself. Null: not known. */
export async function mostOpenFiles(): Promise<number | null> {
  const limits = await readFile('/proc/self/limits', 'utf8').catch(() => '')
  const most = /^Max open files\s+(\d+)/m.exec(limits)?.[1]
  return most === undefined ? null : Number(most)
}
