import { readdir, readFile } from 'node:fs/promises'

async function childrenOf(pid: number): Promise<readonly number[]> {
  const threads = await readdir(`/proc/${pid}/task`).catch((): string[] => [])
  const lists = await Promise.all(
    threads.map((thread) => readFile(`/proc/${pid}/task/${thread}/children`, 'utf8').catch(() => '')),
  )
  return lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number))
}

async function descendantsOf(pid: number): Promise<readonly number[]> {
  const children = await childrenOf(pid)
  return [...children, ...(await Promise.all(children.map(descendantsOf))).flat()]
}

const programOf = async (pid: number): Promise<string> =>
  (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0')[0] ?? ''

/**
 * What was started below a process for a sandbox, to the last one, but for the agent itself: a page that several have
 * counts by its share (Pss).
 */
export async function memoryBelow(pid: number, agent: string): Promise<number> {
  const sizes = await Promise.all(
    (await descendantsOf(pid)).map(async (pid) => {
      if ((await programOf(pid)) === agent) return 0
      const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '')
      return Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1] ?? 0) / 1024
    }),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}

/** Which of our children has started this agent; null while none has. */
export async function supervisorOf(agent: string): Promise<number | null> {
  for (const child of await childrenOf(process.pid)) {
    const programs = await Promise.all((await descendantsOf(child)).map(programOf))
    if (programs.includes(agent)) return child
  }
  return null
}
