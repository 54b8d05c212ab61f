import { setTimeout as sleep } from 'node:timers/promises'
import { OrangeryError } from '../../../shared/errors.ts'
import type { Chain } from '../holder/chain.ts'
import type { InnerMounts } from '../holder/innerMounts.ts'
import type { Place } from './mountTable.ts'
import { Openings } from './openings.ts'
import type { Stillness } from './stillness.ts'
import { inSlices, type ProcessTree, type Survey } from './tree.ts'

type Writer = { readonly pid: number; readonly name: string; readonly files: readonly string[] }

/** Since the last time that one of them let go, and in all. */
const patienceMs = 1500
const longestMs = 4000
const sliceMs = 8
/** An attempt starts a program: not for each slice where a file is seen open, though what is seen may be another root's. */
const slicesPerAttempt = 8
/** Who can open nothing new has closed what it had after a few, if it ever does. */
const slicesWithoutOpening = 25
/** It takes a program for each. */
const mostWithoutOpening = 40
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
  /** The tool that limits how many files others may have open. */
  readonly prlimit: string | null
}

const held = (what: string, hint: string) =>
  new OrangeryError('sandbox.files_held', `files stay writable${what}`, { kind: 'busy', hint })

/** `areSeen`: with a file open for writing; others only may have one. */
type Found = { readonly writers: readonly Writer[]; readonly areSeen: boolean }

async function findWriters(
  { tree, place, mounts, only }: Narrowing,
  pids: readonly number[],
): Promise<Found> {
  const known = new Map()
  const writers = await findAll(pids, tree, (pid) => tree.writtenBy(pid, place, only, known))
  if (writers.length > 0) return { writers, areSeen: true }
  // A file may be open in nobody's table but in a message of a socket, which whoever has it can take.
  // (escape: narrow-hidden-descriptor)
  const carriers = await findAll(pids, tree, async (pid) =>
    (await tree.carriedBy(pid)) === 0 ? [] : ['a file in a message of a socket'],
  )
  if (carriers.length > 0 || mounts.canNarrow) return { writers: carriers, areSeen: false }
  // Without the second way who only reads a file that was deleted is in the way as well.
  const nameless = await findAll(pids, tree, (pid) => tree.namelessOf(pid, place, known))
  return { writers: nameless, areSeen: false }
}

/**
 * Makes a root read-only although files are open for writing, which the kernel refuses. Everything is
 * stopped, so that no new writer comes, and only the writers there are get short slices to finish; one that writes file
 * after file some more in which it can open none. One that does not finish is ended, and named: a boundary said to be
 * read-only is. Where none is found, all but the agent are. Only
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
  const { chain, tree, stillness, attempt, prlimit } = narrowing
  await using still = await stillness.hold()
  let known = new Set<number>()
  let found: Found = { writers: [], areSeen: false }
  /** What each was seen to write last, and who was seen to write something else before. */
  const lastFiles = new Map<number, string>()
  const goesOn = new Set<number>()
  /** Who stands still holds what it held: after the first look only writers and their children are looked at. */
  const look = async ({ theirs }: Survey) => {
    const before = new Set(found.writers.map(({ pid }) => pid))
    const changed = theirs.filter((pid) => before.has(pid) || !known.has(pid))
    known = new Set(theirs)
    found = { writers: [], areSeen: false }
    if (changed.length > 0) found = await findWriters(narrowing, changed)
    if (found.writers.length === 0 && changed.length < theirs.length)
      found = await findWriters(narrowing, theirs)
    for (const { pid, files } of found.writers) {
      const now = files.join('\0')
      if ((lastFiles.get(pid) ?? now) !== now) goesOn.add(pid)
      lastFiles.set(pid, now)
    }
    return found.writers
  }
  const first = await look(await still.again())
  /** Gives the writers slices until none has a file, or what they are given is used up. */
  const letFinish = async (mayGoOn: (slices: number) => boolean): Promise<boolean> => {
    let unseen = 0
    for (let slices = 0; mayGoOn(slices); slices++) {
      const isLost = found.areSeen && slices % slicesPerAttempt !== 0
      if (!isLost && (await attempt())) return true
      const { writers } = found
      unseen = writers.length === 0 ? unseen + 1 : 0
      if (unseen > unseenRounds) return false
      if (writers.length > 0) await chain.order(`tell CONT ${writers.map(({ pid }) => pid).join(' ')}`)
      await sleep(sliceMs)
      await look(await still.again())
    }
    return await attempt()
  }
  // The first look takes its time where there are thousands: patience is with the writers.
  const start = performance.now()
  let [fewest, since] = [first.length, start]
  const hasPatience = () => {
    const now = performance.now()
    if (found.writers.length < fewest) [fewest, since] = [found.writers.length, now]
    return now - since < patienceMs && now - start < longestMs
  }
  const waited = first.length === 0 ? 'waited' : `waited for ${describe(first)}`
  if (await letFinish(hasPatience)) return waited
  const last = found.writers.map(({ pid }) => pid)
  const isLost = last.includes(tree.agent) && !goesOn.has(tree.agent)
  if (found.areSeen && !isLost && prlimit !== null && last.length <= mostWithoutOpening) {
    // At nearly every moment one that writes file after file has some of them open, on a busy machine at every one. It is
    // gentler than what follows for whoever does not let go; the agent itself is spared it where it would be in vain.
    await using openings = new Openings(chain, tree, prlimit)
    await openings.hold(last)
    if (openings.areHeld && (await letFinish((slices) => slices < slicesWithoutOpening)))
      return `${waited}, until it could open no other file`
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
      if (await attempt()) return `ended ${describe(ended)}, which did not let go in time`
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
