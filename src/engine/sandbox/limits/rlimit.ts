import { readFileSync } from 'node:fs'

/** Bubblewrap's first process inside counts with the agent's. */
export const firstProcess = 1

/** The most processes that may be allowed to anyone we start: the hard limit. Null: any number. */
export function parseMostProcesses(limits: string): number | null {
  const hard = /^Max processes +\S+ +(\d+)/m.exec(limits)?.[1]
  return hard === undefined ? null : Number(hard)
}
export const ownMostProcesses = (): number | null =>
  parseMostProcesses(readFileSync('/proc/self/limits', 'utf8'))

/** What helps where RLIMIT_NPROC cannot limit processes; null where it can. */
export function noProcessLimit({
  uid,
  kernel,
  tools,
}: {
  readonly uid: number
  readonly kernel: string
  readonly tools: { readonly prlimit: string | null }
}): string | null {
  // The kernel exempts the real root from it, in whatever namespace.
  if (uid === 0) return 'Run it as an ordinary user, or leave the limit out.'
  const [major = 0, minor = 0] = kernel.split('.').map(Number)
  // Before, all that the user runs anywhere counted: no agent could fork beside a full desktop.
  if (major < 5 || (major === 5 && minor < 14))
    return 'Use Linux 5.14 or newer, the first that counts processes by sandbox, or leave the limit out.'
  return tools.prlimit === null ? 'sudo apt install util-linux' : null
}

/** Why RLIMIT_NPROC cannot be set to so many here, and what helps; null where it can. */
export function beyondHard(
  pids: number,
  { mostProcesses }: { readonly mostProcesses: number | null },
): { readonly why: string; readonly hint: string } | null {
  if (mostProcesses === null || pids + firstProcess <= mostProcesses) return null
  const most = mostProcesses - firstProcess
  return {
    why: `${pids} is more than this user may have (\`ulimit -Hu\` is ${mostProcesses})`,
    hint: most < 1 ? 'Leave it out.' : `Give at most ${most}, or leave it out.`,
  }
}
