import { gitPartOf, isIgnoreFile } from '../classify/classify.ts'
import { isMarkedTree, showsMarker } from '../classify/classifyEntries.ts'
import { isBelow, joinPath, parentOf, toText, type BytePath } from '../bytePath.ts'
import type { LocalFiles, Outcome } from './conflicts.ts'
import { ledOut, linksAfter, type Neighbours } from '../classify/ledOut.ts'
import { followLink, type Home } from '../classify/links.ts'
import { entryKey, type Entry, type Side } from '../manifest.ts'
import { largeFile, type BlobReader } from '../objects/objects.ts'
import type { Target } from '../review/selection.ts'
import type { Step } from './steps.ts'
import type { Tree } from '../objects/tree.ts'

export type Settled = { readonly target: Target; readonly wanted: Side | null; readonly outcome: Outcome }
/** Why a change cannot land as things stand; `kept` where the user's own choice is the reason. */
export type Hold = { readonly why: string; readonly kept: boolean }

export type Ground = {
  readonly entries: ReadonlyMap<string, Entry>
  readonly trees: ReadonlyMap<string, Tree>
  readonly files: ReadonlyMap<string, LocalFiles>
  readonly homes: readonly Home[]
  readonly neighbours: Neighbours
  readonly blobs: BlobReader
}

/**
 * Looks at what will be on disk when exactly these changes land beside what the user has now, and takes out those
 * that would not stand there. A capture judges the agent's whole tree; of that a reviewer may take a part, and the
 * user's folders may have become links meanwhile. (escape: link-through-a-swap)
 */
export class Prospect {
  readonly #ground: Ground
  readonly #settled: ReadonlyMap<string, Settled>
  readonly #active = new Map<string, Step>()
  readonly #held = new Map<string, Hold>()
  /** A renamed file does not lose its old name where it does not get the new one, nor the reverse. */
  readonly #otherName = new Map<string, string>()
  readonly #inside = new Map<string, readonly BytePath[]>()

  constructor(settled: readonly Settled[], ground: Ground) {
    this.#ground = ground
    this.#settled = new Map(settled.map((each) => [entryKey(each.target.entry), each]))
    for (const [key, { target, outcome }] of this.#settled) {
      if (outcome.kind === 'step') this.#active.set(key, outcome.step)
      if (target.from === undefined) continue
      const from = entryKey(target.from)
      this.#otherName.set(key, from).set(from, key)
    }
  }

  /** Holding one back changes what the others find: until nothing more falls. */
  async settleDown(): Promise<void> {
    for (const [key, { target, outcome }] of this.#settled) {
      if (outcome.kind !== 'there' || outcome.kept !== true) continue
      this.#holdRest(key, target.entry, { why: 'you keep your own', kept: true })
    }
    for (let before = -1; before !== this.#held.size;) {
      before = this.#held.size
      for (const [key, step] of this.#active) {
        const hold =
          (await this.#lacksFolder(step)) ??
          (await this.#isOccupied(step)) ??
          (await this.#leaves(step)) ??
          (await this.#shows(step))
        if (hold !== null) this.#holdBack(key, step, hold)
      }
      if (before === this.#held.size) await this.#holdLeadingOut()
    }
  }

  holdOf({ target }: Settled): Hold | null {
    return this.#held.get(entryKey(target.entry)) ?? null
  }

  /** What is to be done, with the folders that somebody has removed meanwhile. */
  async steps(): Promise<Step[]> {
    const made = new Map<string, Step>()
    for (const { root, path, after } of this.#active.values()) {
      if (after === null) continue
      for (let at = parentOf(path); at !== ''; at = parentOf(at)) {
        const key = entryKey({ root, path: at })
        if (this.#active.has(key) || made.has(key)) continue
        if ((await this.#ground.files.get(root)?.folder(at)) !== 'missing') break
        const known = this.#ground.entries.get(key)?.result
        const mode = known?.kind === 'directory' ? known.mode : 0o755
        made.set(key, { root, path: at, before: null, after: { kind: 'directory', mode }, identity: null })
      }
    }
    return [...this.#active.values(), ...made.values()]
  }

  #holdBack(key: string, step: Step, hold: Hold): void {
    if (this.#held.has(key)) return
    this.#held.set(key, hold)
    this.#active.delete(key)
    this.#holdRest(key, step, hold)
    if (hold.kept) return
    // Whoever said yes to a rename, be it none for sure, has not said that the file goes and does not come.
    const from = this.#settled.get(key)?.target.file?.from ?? null
    if (from !== null) this.#holdAlong(entryKey(from), hold)
    // A folder goes with the last thing in it: noted as gone now, it would be nobody's to remove later.
    const folder = entryKey({ root: step.root, path: parentOf(step.path) })
    if (step.after === null && this.#active.get(folder)?.after === null) this.#holdAlong(folder, hold)
  }
  #holdRest(key: string, { root, path }: Pick<Step, 'root' | 'path'>, hold: Hold): void {
    const name = this.#otherName.get(key)
    if (!hold.kept || !this.#isChosen(name)) this.#holdAlong(name, hold)
    const swap = this.#ground.entries.get(key)
    if (swap?.base?.kind !== 'directory' || swap.result === null) return
    // The folder stays, so what was only removed to make room stays in it.
    for (const [other, { target }] of this.#settled) {
      const { entry, file } = target
      const isPart = entry.root === root && isBelow(entry.path, path) && entry.result === null
      const isOldName = file === null && entry.base?.kind !== 'directory'
      if (isPart && !isOldName)
        this.#holdAlong(other, { ...hold, why: `it goes only together with ${toText(path)}: ${hold.why}` })
    }
  }
  /** Whoever was asked for each of the two names and has chosen for each is not bound to one by the other. */
  #isChosen(key: string | undefined): boolean {
    const outcome = this.#settled.get(key ?? '')?.outcome
    return outcome?.kind === 'step' && outcome.answer !== undefined
  }
  #holdAlong(key: string | undefined, hold: Hold): void {
    const step = this.#active.get(key ?? '')
    if (key !== undefined && step !== undefined) this.#holdBack(key, step, hold)
  }

  async #lacksFolder({ root, path, after }: Step): Promise<Hold | null> {
    if (after === null) return null
    const found = await this.#ground.files.get(root)?.folder(parentOf(path))
    if (found === undefined || found === null || found === 'missing') return null
    const key = entryKey({ root, path: found.notOne })
    if (this.#active.get(key)?.after?.kind === 'directory') return null
    const folder = `its folder ${toText(found.notOne)}`
    if (this.#settled.get(key)?.wanted?.kind !== 'directory')
      return { why: `${folder} is not approved`, kept: false }
    return this.#becauseOf(key, `${folder} does not become one`)
  }

  /** A folder that becomes something else must hold nothing but what goes with it. */
  async #isOccupied({ root, path, before, after }: Step): Promise<Hold | null> {
    if (before?.kind !== 'directory' || after === null || after.kind === 'directory') return null
    for (const inside of await this.#contentOf(root, path)) {
      const key = entryKey({ root, path: inside })
      const step = this.#active.get(key)
      if (step !== undefined && step.after === null) continue
      const hold = this.#becauseOf(key, `${toText(inside)} stays in it`)
      if (hold !== null) return hold
    }
    return null
  }
  async #contentOf(root: string, path: BytePath): Promise<readonly BytePath[]> {
    const key = entryKey({ root, path })
    const tree = this.#ground.trees.get(root)
    const known = this.#inside.get(key) ?? (tree === undefined ? [] : await everythingIn(tree, path))
    this.#inside.set(key, known)
    return known
  }

  /** Null where that one is a conflict: nothing lands then, and the conflict is what has to be told. */
  #becauseOf(key: string, why: string): Hold | null {
    const outcome = this.#settled.get(key)?.outcome
    if (outcome?.kind === 'conflict') return null
    const isKept = outcome?.kind === 'there' && outcome.kept === true
    return { why, kept: isKept || this.#held.get(key)?.kept === true }
  }

  async #leaves({ root, path, after }: Step): Promise<Hold | null> {
    if (after?.kind !== 'symlink') return null
    const target = (await this.#ground.blobs.read(after.oid)).toString('latin1')
    const linkAt = linksAfter(this.#active, this.#ground)
    const followed = await followLink({ root, path, target }, this.#ground.homes, linkAt)
    return followed.stays ? null : { why: followed.why, kept: false }
  }

  /** Half of an ignore file, or one that was woven with the user's, may do what neither of the two whole ones does. */
  async #shows({ root, path, before, after }: Step): Promise<Hold | null> {
    if (!isIgnoreFile(path) || after?.kind !== 'file' || !(await isMarkedTree(root))) return null
    const shownBy = async (side: Side | null) => {
      if (side?.kind !== 'file') return null
      if (side.size >= largeFile) return 'it is too large to tell whether it would show our marker to git'
      return showsMarker(path, await this.#ground.blobs.read(side.oid))
    }
    const why = await shownBy(after)
    // What the user shows himself already is his own to show.
    return why === null || (await shownBy(before)) !== null ? null : { why, kept: false }
  }

  async #holdLeadingOut(): Promise<void> {
    for (const { link, because } of await ledOut(this.#active, this.#ground, this.#ground.neighbours)) {
      const why = `the link ${toText(link.path)} that is there would lead out of its root by it`
      for (const step of because) this.#holdBack(entryKey(step), step, { why, kept: false })
    }
  }
}

async function everythingIn(tree: Tree, path: BytePath): Promise<BytePath[]> {
  const found: BytePath[] = []
  for (const name of await tree.list(path)) {
    const at = joinPath(path, name.toString('latin1'))
    found.push(at)
    if ((await tree.lstat(at))?.isDirectory() === true) found.push(...(await everythingIn(tree, at)))
  }
  return found.toSorted()
}

/** The first thing in a folder that no agent has touched: the user's own. Git's files are told otherwise. */
export async function ownContent(
  tree: Tree | undefined,
  folder: Pick<Entry, 'root' | 'path'>,
  entries: ReadonlyMap<string, Entry>,
): Promise<BytePath | null> {
  const { root, path } = folder
  const inside = tree === undefined ? [] : await everythingIn(tree, path)
  const isOwn = (at: BytePath) =>
    gitPartOf(at) === null && entries.get(entryKey({ root, path: at }))?.result !== null
  return inside.find(isOwn) ?? null
}
