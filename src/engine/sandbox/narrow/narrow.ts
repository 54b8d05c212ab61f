import { setTimeout as sleep } from 'node:timers/promises'
import { OrangeryError } from '../../../shared/errors.ts'
import type { Chain } from '../holder/chain.ts'
import type { InnerMounts } from '../holder/innerMounts.ts'
import type { Place } from './mountTable.ts'
import type { Stillness } from './stillness.ts'
import { inSlices, type ProcessTree, type Survey } from './tree.ts'

type Writer = { readonly pid: number; readonly name: string; readonly files: readonly string[] }

const patienceMs = 1500
const sliceMs = 8
/** A file is let go a moment after the last that had it. */
const unseenRounds = 10
/** How long those that have to be ended are looked for, where they come again. */
const endingMs = 2500
const attemptsPerLook = 3
/** A timer lets a process go on again; one that goes on in a child has none there for a moment, and is hit then. */
const presses = 50
const mostNamed = 10

function describe(writers: readonly Writer[]): string {
  const named = writers
    .slice(0, mostNamed)
    .map(({ name, pid, files }) => `${name} (${pid}) with ${files[0] ?? 'a file'}`)
  const more = writers.length - named.length
  return more > 0 ? `${named.join(', ')} and ${more} more` : named.join(', ')
}

async function findAll(
  pids: readonly number[],
  tree: ProcessTree,
  filesOf: (pid: number) => Promise<readonly string[]>,
): Promise<readonly Writer[]> {
  const found = await inSlices(pids, async (pid) => {
    const files = await filesOf(pid)
    return files.length === 0 ? [] : [{ pid, name: await tree.nameOf(pid), files }]
  })
  return found.flat()
}

/** For the record, where a root was made read-only at its mounts: who keeps which file that has no name any more. */
export async function describeNameless(tree: ProcessTree, place: Place): Promise<string> {
  const known = new Map()
  const holders = await findAll(await tree.list(), tree, (pid) => tree.namelessOf(pid, place, known))
  const who = holders.length === 0 ? 'a process with a file' : describe(holders)
  return `${who}, deleted but still open: it can be read on, and nobody had to be ended for it`
}

export type Narrowing = {
  readonly chain: Chain
  readonly tree: ProcessTree
  readonly stillness: Stillness
  readonly mounts: InnerMounts
  readonly place: Place
  /** Tells whether what is to be read-only is so now. */
  readonly attempt: () => Promise<boolean>
  /** The mounts that are to be, where that is not the whole root. */
  readonly only?: ReadonlySet<string>
}

const held = (what: string, hint: string) =>
  new OrangeryError('sandbox.files_held', `files stay writable${what}`, { kind: 'busy', hint })

async function findWriters(
  { tree, place, mounts, only }: Narrowing,
  pids: readonly number[],
): Promise<readonly Writer[]> {
  const known = new Map()
  const writers = await findAll(pids, tree, (pid) => tree.writtenBy(pid, place, only, known))
  if (writers.length > 0) return writers
  // A file may be open in nobody's table but in a message of a socket, which whoever has it can take.
  // (escape: narrow-hidden-descriptor)
  const carriers = await findAll(pids, tree, async (pid) =>
    (await tree.carriedBy(pid)) === 0 ? [] : ['a file in a message of a socket'],
  )
  if (carriers.length > 0 || mounts.canNarrow) return carriers
  // Without the second way who only reads a file that was deleted is in the way as well.
  return findAll(pids, tree, (pid) => tree.namelessOf(pid, place, known))
}

/**
 * Makes a root read-only although files are open for writing, which the kernel refuses. Everything is
 * stopped, so that no new writer comes, and only the writers there are get short slices to finish. One that
 * does not is ended, and named: a boundary said to be read-only is. Where none is found, all but the agent are. Only
 * where that would be the agent itself is nothing done.
 */
export async function narrowAgainstWriters(narrowing: Narrowing): Promise<string> {
  try {
    return await waitForWriters(narrowing)
  } catch (error) {
    if (narrowing.chain.isAlive) throw error
    // On record it is a wish: while it ran, everything could be written.
    throw new OrangeryError('sandbox.ended', 'files stayed writable until the sandbox ended', {
      kind: 'busy',
    })
  }
}

async function waitForWriters(narrowing: Narrowing): Promise<string> {
  const { chain, stillness, attempt } = narrowing
  await using still = await stillness.hold()
  let known = new Set<number>()
  let writers: readonly Writer[] = []
  /** Who stands still holds what it held: after the first look only writers and their children are looked at. */
  const look = async ({ theirs }: Survey) => {
    const before = new Set(writers.map(({ pid }) => pid))
    const changed = theirs.filter((pid) => before.has(pid) || !known.has(pid))
    known = new Set(theirs)
    writers = changed.length === 0 ? [] : await findWriters(narrowing, changed)
    if (writers.length === 0 && changed.length < theirs.length) writers = await findWriters(narrowing, theirs)
    return writers
  }
  const first = await look(await still.again())
  // The first look takes its time where there are thousands: patience is with the writers.
  const start = performance.now()
  for (let unseen = 0; performance.now() - start < patienceMs;) {
    if (await attempt()) return first.length === 0 ? 'waited' : `waited for ${describe(first)}`
    if (writers.length === 0 && ++unseen > unseenRounds) break
    if (writers.length > 0) await chain.order(`tell CONT ${writers.map(({ pid }) => pid).join(' ')}`)
    await sleep(sliceMs)
    await look(await still.again())
  }
  // Awaited: nothing is let go before it is done.
  return await endWriters(narrowing, async () => {
    const survey = await still.again(presses)
    return { found: await look(survey), theirs: survey.theirs }
  })
}

const askTheAgent = 'Ask the agent to close the file, or end the dispatch.'

type Look = { readonly found: readonly Writer[]; readonly theirs: readonly number[] }

async function endWriters(narrowing: Narrowing, look: () => Promise<Look>): Promise<string> {
  const { chain, tree, attempt } = narrowing
  const ended: Writer[] = []
  const start = performance.now()
  let unseen = 0
  do {
    const { found, theirs } = await look()
    // Who was ended lets go in its time: others are blamed only once that has passed.
    const isDue = ended.length === 0 || found.length > 0 || ++unseen > unseenRounds
    const last = found.length > 0 ? found : isDue ? await whoIsLeft(tree, theirs) : []
    if (isDue && last.length === 0) throw held(': a file is held open for writing', askTheAgent)
    if (last.some(({ pid }) => pid === tree.agent)) throw held(`: ${describe(last)}`, askTheAgent)
    if (last.length > 0) await chain.order(`tell KILL ${last.map(({ pid }) => pid).join(' ')}`)
    ended.push(...last)
    // Not for long: one that goes on in new processes is to be found while they are few.
    for (let round = 0; round < attemptsPerLook; round++) {
      if (await attempt()) return `ended ${describe(ended)}, which did not let go`
      await sleep(2)
    }
  } while (performance.now() - start < endingMs)
  throw held(
    `, though ${describe(ended)} was ended for it`,
    'End the dispatch: somebody in it holds a file in a way that cannot be seen.',
  )
}

/** The kernel says that somebody holds a file: whom we cannot tell from the others goes with them. */
async function whoIsLeft(tree: ProcessTree, theirs: readonly number[]): Promise<readonly Writer[]> {
  // Whoever runs although all were stopped has a way around it, as by a timer, and is not to be caught at its file.
  const { moving } = await tree.survey()
  const blamed = moving.length > 0 ? moving : theirs.filter((pid) => pid !== tree.agent)
  return findAll(blamed, tree, async () => ['a file in a way that cannot be seen'])
}
