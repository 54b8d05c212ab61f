import { setTimeout as sleep } from 'node:timers/promises'
import { OrangeryError } from '../../shared/errors.ts'
import type { Chain } from './chain.ts'
import type { ProcessTree } from './tree.ts'

type Writer = { readonly pid: number; readonly name: string; readonly files: readonly string[] }

const patienceMs = 1500
const sliceMs = 8

const describe = (writers: readonly Writer[]) =>
  writers.map(({ name, pid, files }) => `${name} (${pid}) with ${files[0] ?? 'a file'}`).join(', ')

/** Stops every process of the tree, those made while we go about it too. */
async function stopAll(chain: Chain, tree: ProcessTree): Promise<readonly number[]> {
  const stopped = new Set<number>()
  for (;;) {
    const running = (await tree.list()).filter((pid) => !stopped.has(pid))
    if (running.length === 0) return [...stopped]
    await chain.order(`tell STOP ${running.join(' ')}`)
    for (const pid of running) stopped.add(pid)
  }
}

/**
 * Makes a root read-only although files are open for writing, which the kernel refuses. Everything is
 * stopped, so that no new writer comes, and only the writers there are get short slices to finish. One that
 * does not is ended, and named: a boundary said to be read-only is. Where none is found, all but the agent are. Only
 * where that would be the agent itself is nothing done.
 */
export async function narrowAgainstWriters(
  chain: Chain,
  tree: ProcessTree,
  target: string,
  remount: () => Promise<void>,
): Promise<string> {
  const start = performance.now()
  const everyone = await stopAll(chain, tree)
  const findWriters = async (): Promise<readonly Writer[]> => {
    const found = await Promise.all(
      everyone.map(async (pid) => {
        const files = await tree.writtenBy(pid, target)
        return files.length === 0 ? [] : [{ pid, name: await tree.nameOf(pid), files }]
      }),
    )
    return found.some((writers) => writers.length > 0) ? found.flat() : findCarriers()
  }
  // A file may be open in nobody's table but in a message of a socket, which whoever has it can take.
  // (escape: narrow-hidden-descriptor)
  const findCarriers = async (): Promise<readonly Writer[]> => {
    const found = await Promise.all(
      everyone.map(async (pid) =>
        (await tree.carriedBy(pid)) === 0
          ? []
          : [{ pid, name: await tree.nameOf(pid), files: ['a file in a message of a socket'] }],
      ),
    )
    return found.flat()
  }
  const everyoneElse = async (): Promise<readonly Writer[]> => {
    const others = everyone.filter((pid) => pid !== tree.agent)
    const files = ['a file in a way that cannot be seen']
    return Promise.all(others.map(async (pid) => ({ pid, name: await tree.nameOf(pid), files })))
  }
  const attempt = () =>
    remount().then(
      () => true,
      () => false,
    )
  try {
    const first = await findWriters()
    while (performance.now() - start < patienceMs) {
      if (await attempt()) return `waited for ${describe(first)}`
      const pids = (await findWriters()).map(({ pid }) => pid).join(' ')
      if (pids === '') break
      await chain.order(`tell CONT ${pids}`)
      await sleep(sliceMs)
      await chain.order(`tell STOP ${pids}`)
    }
    const found = await findWriters()
    // The kernel says that somebody holds a file: whom we cannot tell from the others goes with them.
    const last = found.length > 0 ? found : await everyoneElse()
    if (last.some(({ pid }) => pid === tree.agent) || last.length === 0) {
      throw new OrangeryError(
        'sandbox.files_held',
        `files stay writable: ${last.length === 0 ? 'a file is held open for writing' : describe(last)}`,
        { kind: 'busy', hint: 'Ask the agent to close the file, or end the dispatch.' },
      )
    }
    await chain.order(`tell KILL ${last.map(({ pid }) => pid).join(' ')}`)
    for (let round = 0; round < 50; round++) {
      if (await attempt()) return `ended ${describe(last)}, which did not let go`
      await sleep(2)
    }
    throw new OrangeryError('sandbox.files_held', `files stay writable: ${describe(last)}`, { kind: 'busy' })
  } finally {
    await chain.order(`tell CONT ${everyone.join(' ')}`).catch(() => {})
  }
}
