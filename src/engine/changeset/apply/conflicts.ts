import { createHash, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { ResolutionRecord } from '../../base/changesetRecords.ts'
import { tryGit } from '../../base/git.ts'
import { scratchPlace } from '../../base/scratch.ts'
import { namedPath, parentOf, rootPath, toText, type BytePath } from '../bytePath.ts'
import { contentOf, storeSide } from '../capture/content.ts'
import { realDisk, removeTree, writeNew, type Disk } from '../disk.ts'
import { localIdentity } from './isAt.ts'
import { sameContent, sameSide, type Entry, type Side } from '../manifest.ts'
import { largeFile, type BlobReader } from '../objects/objects.ts'
import type { PackWriter } from '../objects/packWriter.ts'
import type { Target } from '../review/selection.ts'
import type { Step } from './steps.ts'
import type { Tree } from '../objects/tree.ts'

export type Conflict = {
  readonly root: string
  readonly path: string
  readonly path_b64?: string | undefined
  readonly why: string
  /** Names both sides as they are now; a choice made for others does not count. */
  readonly anchor: string
  readonly choices: readonly ('mine' | 'theirs' | 'both' | 'edit')[]
  /** Blobs of the three texts, where both sides are files small enough to edit. */
  readonly texts?: ConflictTexts
}
export type ConflictTexts = { readonly base: string | null; readonly mine: string; readonly theirs: string }
/** A conflict, and what a person has chosen for it. */
export type Answer = { readonly conflict: Conflict; readonly resolution: ResolutionRecord }
export type Outcome =
  | { readonly kind: 'step'; readonly step: Step; readonly merged: boolean; readonly answer?: Answer }
  | { readonly kind: 'there'; readonly kept?: boolean; readonly answer?: Answer }
  | { readonly kind: 'conflict'; readonly conflict: Conflict }

export type Local = {
  readonly side: Side | null
  readonly identity: string | null
  readonly blocked: BytePath | null
  /** Of a renamed file: it is not under its old name any more, so the user has deleted or renamed it himself. */
  readonly hasLeft?: boolean
  /** Of a folder that is to be something else: what the user has put into it. */
  readonly own?: BytePath | null
  /** Of a renamed file of which the user has changed what he has under the old name. */
  readonly former?: Former | null
}
/** What a file was before the agent renamed it, and what the user has under that name now. */
export type Former = { readonly entry: Entry; readonly side: Side; readonly identity: string | null }
/** Null is a folder; else there is none, or something else stands in its place or in that of one above it. */
type FolderState = null | 'missing' | { readonly notOne: BytePath }

/** The user's files as they are now, read once for one plan. */
export class LocalFiles {
  readonly #tree: Tree
  readonly #writer: PackWriter
  readonly #folders = new Map<BytePath, FolderState>([[rootPath, null]])

  constructor(tree: Tree, writer: PackWriter) {
    this.#tree = tree
    this.#writer = writer
  }

  /** What the user has at a path. Contents that are new to us go into the store, so that undo has them. */
  async read(path: BytePath, expected: Side | null): Promise<Local> {
    const tree = this.#tree
    const parent = await this.folder(parentOf(path))
    if (parent === 'missing') return nothing
    if (parent !== null) return { side: null, identity: null, blocked: parent.notOne }
    const stat = await tree.lstat(path)
    if (stat === null) return nothing
    const identity = stat.isDirectory() ? null : localIdentity(stat)
    const mode = Number(stat.mode & 0o7777n)
    if (expected?.kind === 'file' && stat.isFile() && Number(stat.size) === expected.size) {
      const digest = createHash('sha256')
      for await (const chunk of contentOf(tree, path)) digest.update(chunk)
      if (digest.digest('hex') === expected.sha256)
        return { side: { ...expected, mode }, identity, blocked: null }
    }
    return { side: await storeSide(tree, path, stat, this.#writer, undefined), identity, blocked: null }
  }

  /** A parent that is no folder (any more) is named: through a link we would land somewhere else. */
  async folder(path: BytePath): Promise<FolderState> {
    const known = this.#folders.get(path)
    if (known !== undefined) return known
    let found = await this.folder(parentOf(path))
    if (found === null) {
      const stat = await this.#tree.lstat(path)
      if (stat === null) found = 'missing'
      else if (!stat.isDirectory()) found = { notOne: path }
    }
    this.#folders.set(path, found)
    return found
  }
}
const nothing: Local = { side: null, identity: null, blocked: null }

export type MergeTools = {
  readonly blobs: BlobReader
  readonly writer: PackWriter
  readonly disk: Disk
  readonly resolutions: readonly ResolutionRecord[]
}

/** Decides what landing `wanted` on `local` means. `going`: paths this apply removes or turns into folders. */
export async function settle(
  target: Target,
  wanted: Side | null,
  local: Local,
  going: ReadonlySet<string>,
  tools: MergeTools,
): Promise<Outcome> {
  const { entry } = target
  // Of a renamed file both sides started from the old name: what the user wrote there is woven in under the new one.
  const { base, certain } = local.former?.entry ?? entry
  const now = local.former?.side ?? local.side
  const step = (after: Side | null, merged = false): Exclude<Outcome, { kind: 'conflict' }> =>
    sameSide(local.side, after)
      ? { kind: 'there' }
      : {
          kind: 'step',
          merged,
          step: { root: entry.root, path: entry.path, before: local.side, after, identity: local.identity },
        }
  const open = await unanswered()
  const resolution = open.kind === 'conflict' ? choice() : undefined
  if (open.kind !== 'conflict' || resolution === undefined) return open
  const chosen = await asChosen(resolution)
  return chosen === null ? open : { ...chosen, answer: { conflict: open.conflict, resolution } }

  async function asChosen({
    choice: word,
    content,
  }: ResolutionRecord): Promise<Exclude<Outcome, { kind: 'conflict' }> | null> {
    if (word === 'mine') return { kind: 'there', kept: true }
    if (word === 'theirs') return step(wanted)
    if (word === 'edit') return content === null ? null : step(await edited(content))
    const union = await mergeFiles('--union')
    return union === null ? null : step(union, true)
  }

  async function unanswered(): Promise<Outcome> {
    if (local.blocked !== null && !going.has(`${entry.root}\0${local.blocked}`)) {
      if (wanted === null) return { kind: 'there' }
      return conflict(`its folder ${toText(local.blocked)} is no folder any more`, ['mine'])
    }
    if (sameSide(now, wanted)) return step(wanted)
    if (local.own != null) {
      const what = wanted === null ? 'deleted it' : `made it a ${wanted.kind}`
      return conflict(`you have ${toText(local.own)} in this folder, and the agent ${what}`, ['mine'])
    }
    if (now?.kind === 'special') return conflict(`there is a ${now.what} in its place`, ['mine'])
    if (isFolder(base, true) && isFolder(wanted, true)) return settleFolder()
    if (sameSide(now, base) && certain && local.hasLeft !== true) return step(wanted)

    if (!certain) return conflict('it may have changed after the agent started', await textChoices())
    if (now === null && base === null)
      return conflict('you deleted or renamed what the agent renamed to this', ['mine', 'theirs'])
    if (now === null) return conflict('you deleted it meanwhile', ['mine', 'theirs'])
    if (wanted === null) return conflict('you changed it meanwhile, the agent deleted it', ['mine', 'theirs'])
    if (base === null) return conflict('you made a file of that name meanwhile', await textChoices())
    if (now.kind !== base.kind) return conflict(`it is a ${now.kind} now`, ['mine', 'theirs'])
    if (wanted.kind !== base.kind)
      return conflict(`the agent made it a ${wanted.kind}, you changed it`, ['mine', 'theirs'])
    const merged = await mergeFiles(null)
    return merged === null ? contradiction(await textChoices()) : step(merged, true)
  }

  function contradiction(choices: Conflict['choices']): Outcome {
    if (modesOf(base, now, wanted) === null) return conflict('you changed its mode meanwhile', choices)
    const isText = choices.includes('edit')
    const why = isText
      ? 'you changed the same lines meanwhile'
      : 'you changed it meanwhile, and it is no text'
    return conflict(why, choices)
  }

  function settleFolder(): Outcome {
    if (now !== null && now.kind !== 'directory') {
      return wanted === null ? { kind: 'there' } : conflict(`it is a ${now.kind} now`, ['mine'])
    }
    if (wanted === null) return now === null ? { kind: 'there' } : step(null)
    // A new mode for a folder that is gone asks for nothing.
    if (now === null) return base === null ? step(wanted) : { kind: 'there' }
    // The user's own mode of a folder wins unless the agent's change was made on it.
    return base !== null && sameSide(now, base) ? step(wanted) : { kind: 'there' }
  }
  function anchor(): string {
    return createHash('sha256')
      .update(JSON.stringify([now, wanted, local.blocked ?? local.own ?? undefined]))
      .digest('hex')
      .slice(0, 32)
  }
  function choice(): ResolutionRecord | undefined {
    const at = anchor()
    return tools.resolutions.findLast(
      (each) => each.root === entry.root && each.path === entry.path && each.anchor === at,
    )
  }
  function conflict(why: string, choices: Conflict['choices']): Outcome {
    const renamed =
      local.former == null ? '' : ` (as ${toText(local.former.entry.path)}, which the agent renamed)`
    const told = { why: `${why}${renamed}`, anchor: anchor(), choices }
    const found = { root: entry.root, ...namedPath(entry.path), ...told }
    if (!choices.includes('edit') || now?.kind !== 'file' || wanted?.kind !== 'file')
      return { kind: 'conflict', conflict: found }
    const texts = { base: base?.kind === 'file' ? base.oid : null, mine: now.oid, theirs: wanted.oid }
    return { kind: 'conflict', conflict: { ...found, texts } }
  }
  async function textChoices(): Promise<Conflict['choices']> {
    const sides = [now, wanted, ...(base === null ? [] : [base])]
    await tools.writer.flush()
    for (const side of sides) {
      if (side?.kind !== 'file' || side.size >= largeFile) return ['mine', 'theirs']
      // As git tells: what it takes for a binary cannot be woven together.
      if ((await tools.blobs.read(side.oid)).subarray(0, 8000).includes(0)) return ['mine', 'theirs']
    }
    return ['mine', 'theirs', 'both', 'edit']
  }
  async function edited(oid: string): Promise<Side> {
    const content = await tools.blobs.read(oid)
    const mode = wanted?.kind === 'file' ? wanted.mode : 0o644
    return {
      kind: 'file',
      mode,
      size: content.length,
      oid,
      sha256: createHash('sha256').update(content).digest('hex'),
    }
  }
  /** A three-way merge of text and modes; null where they contradict each other. */
  async function mergeFiles(favour: '--union' | null): Promise<Side | null> {
    if (now?.kind !== 'file' || wanted?.kind !== 'file' || (base !== null && base.kind !== 'file'))
      return null
    const mode = mergeModes(base?.mode ?? null, now.mode, wanted.mode)
    if (mode === null && favour === null) return null
    const side = (of: Extract<Side, { kind: 'file' }>): Side => ({ ...of, mode: mode ?? now.mode })
    if (sameContent(now, base)) return side(wanted)
    if (sameContent(wanted, base) || sameContent(now, wanted)) return side(now)
    if ([now, wanted, ...(base === null ? [] : [base])].some((each) => each.size > largeFile)) return null
    await tools.writer.flush()
    const contents: [Buffer, Buffer, Buffer] = [
      await tools.blobs.read(now.oid),
      base === null ? Buffer.alloc(0) : await tools.blobs.read(base.oid),
      await tools.blobs.read(wanted.oid),
    ]
    const merged = await mergeTexts(contents, favour, tools.disk)
    if (merged === null) return null
    const sha256 = createHash('sha256').update(merged).digest('hex')
    const oid = await tools.writer.add('blob', merged)
    return side({ kind: 'file', mode: 0, size: merged.length, oid, sha256 })
  }
}

/** The old name of a file that lands under a new one goes with it, whatever the user has written there. */
export function settleFormer(target: Target, { side, identity }: Former, renamed: Outcome): Outcome {
  if (renamed.kind !== 'step')
    return renamed.kind === 'there' && renamed.kept === true ? renamed : { kind: 'there' }
  const { root, path } = target.entry
  return { kind: 'step', merged: false, step: { root, path, before: side, after: null, identity } }
}

function isFolder(side: Side | null, orNothing: boolean): boolean {
  return side === null ? orNothing : side.kind === 'directory'
}

/** Null where both sides changed a file's mode, each in a way of its own. */
function modesOf(base: Side | null, mine: Side | null, theirs: Side | null): number | null {
  return mine?.kind === 'file' && theirs?.kind === 'file'
    ? mergeModes(base?.kind === 'file' ? base.mode : null, mine.mode, theirs.mode)
    : 0
}

function mergeModes(base: number | null, mine: number, theirs: number): number | null {
  if (mine === theirs || base === theirs) return mine
  return base === mine ? theirs : null
}

const marks = ['-L', 'yours', '-L', 'before', '-L', "the agent's"]

/** `git merge-file` on three private files; it refuses binaries and tells conflicts by its exit code. */
export async function mergeTexts(
  contents: readonly [mine: Buffer, base: Buffer, theirs: Buffer],
  favour: '--union' | 'marked' | null,
  disk: Disk = realDisk,
): Promise<Buffer | null> {
  const folder = join(await scratchPlace(), `orangery-merge-${randomBytes(8).toString('hex')}`)
  await disk.mkdir(folder, 0o700)
  try {
    const names = ['mine', 'base', 'theirs'].map((name) => join(folder, name))
    for (const [at, name] of names.entries()) await writeNew(disk, name, contents[at] ?? Buffer.alloc(0))
    const how = favour === 'marked' ? marks : favour === null ? [] : [favour]
    const { code, stdout } = await tryGit(['merge-file', '-p', '-q', ...how, ...names])
    // Beyond 127 it is an error and not a number of conflicts.
    return code === 0 || (favour === 'marked' && code !== null && code < 128) ? stdout : null
  } finally {
    await removeTree(disk, folder)
  }
}
