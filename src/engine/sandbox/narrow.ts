import { setTimeout as sleep } from 'node:timers/promises'
import { OrangeryError } from '../../shared/errors.ts'
import type { Chain } from './chain.ts'
import type { InnerMounts } from './innerMounts.ts'
import type { Place } from './mountTable.ts'
import type { ProcessTree } from './tree.ts'

type Writer = { readonly pid: number; readonly name: string; readonly files: readonly string[] }

const patienceMs = 1500
const sliceMs = 8
/** A file is let go a moment after the last that had it. */
const unseenRounds = 10

const describe = (writers: readonly Writer[]) =>
  writers.map(({ name, pid, files }) => `${name} (${pid}) with ${files[0] ?? 'a file'}`).join(', ')

async function findAll(
  pids: readonly number[],
  tree: ProcessTree,
  filesOf: (pid: number) => Promise<readonly string[]>,
): Promise<readonly Writer[]> {
  const found = await Promise.all(
    pids.map(async (pid) => {
      const files = await filesOf(pid)
      return files.length === 0 ? [] : [{ pid, name: await tree.nameOf(pid), files }]
    }),
  )
  return found.flat()
}

/** For the record, where a root was made read-only at its mounts: who keeps which file that has no name any more. */
export async function describeNameless(tree: ProcessTree, place: Place): Promise<string> {
  const holders = await findAll(await tree.list(), tree, (pid) => tree.namelessOf(pid, place))
  const who = holders.length === 0 ? 'a process with a file' : describe(holders)
  return `${who}, deleted but still open: it can be read on, and nobody had to be ended for it`
}

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
 * where that would be the agent itself is nothing done. `attempt` tells whether the root is read-only now; `only`: the mounts that are to be, where that is
 * not the whole root.
 */
export async function narrowAgainstWriters(
  chain: Chain,
  tree: ProcessTree,
  place: Place,
  mounts: InnerMounts,
  attempt: () => Promise<boolean>,
  only?: ReadonlySet<string>,
): Promise<string> {
  const start = performance.now()
  const everyone = await stopAll(chain, tree)
  const findWriters = async (): Promise<readonly Writer[]> => {
    const writers = await findAll(everyone, tree, (pid) => tree.writtenBy(pid, place, only))
    if (writers.length > 0) return writers
    // A file may be open in nobody's table but in a message of a socket, which whoever has it can take.
    // (escape: narrow-hidden-descriptor)
    const carriers = await findAll(everyone, tree, async (pid) =>
      (await tree.carriedBy(pid)) === 0 ? [] : ['a file in a message of a socket'],
    )
    if (carriers.length > 0 || mounts.canNarrow) return carriers
    // Without the second way who only reads a file that was deleted is in the way as well.
    return findAll(everyone, tree, (pid) => tree.namelessOf(pid, place))
  }
  const everyoneElse = () =>
    findAll(
      everyone.filter((pid) => pid !== tree.agent),
      tree,
      async () => ['a file in a way that cannot be seen'],
    )
  try {
    const first = await findWriters()
    let unseen = 0
    while (performance.now() - start < patienceMs) {
      if (await attempt()) return first.length === 0 ? 'waited' : `waited for ${describe(first)}`
      const pids = (await findWriters()).map(({ pid }) => pid).join(' ')
      if (pids === '' && ++unseen > unseenRounds) break
      if (pids !== '') await chain.order(`tell CONT ${pids}`)
      await sleep(sliceMs)
      if (pids !== '') await chain.order(`tell STOP ${pids}`)
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
    throw new OrangeryError(
      'sandbox.files_held',
      `files stay writable, though ${describe(last)} was ended for it`,
      { kind: 'busy', hint: 'End the dispatch: somebody in it holds a file in a way that cannot be seen.' },
    )
  } finally {
    await chain.order(`tell CONT ${everyone.join(' ')}`).catch(() => {})
  }
}
