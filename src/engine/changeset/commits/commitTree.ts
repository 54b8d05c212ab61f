import { chmod, mkdir, open, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { GitItem } from '../../base/indexRows.ts'
import { makeScratch } from '../../base/scratch.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { fromBytes, parentOf, parentsOf, toBytes, toText, type BytePath } from '../bytePath.ts'
import { mergeTexts } from '../apply/conflicts.ts'
import type { Side } from '../manifest.ts'
import type { BlobReader } from '../objects/objects.ts'
import { askGit, userGit, userGitBytes } from './userGit.ts'

export type PathChange = {
  /** Within the repository. */
  readonly path: BytePath
  readonly base: Side | null
  readonly wanted: Side | null
  readonly ignored: boolean
  /** Its name before, where the change is a new one. */
  readonly from?: BytePath | undefined
}
type ChangedItem = { readonly path: BytePath; readonly item: GitItem | null }
export type PlannedTree = {
  readonly oid: string
  readonly items: readonly ChangedItem[]
  readonly notes: readonly string[]
}
const link = '120000'
const submodule = '160000'

/**
 * A commit's tree from what was reviewed, woven into what the branch has. Nothing is read from the user's folder: it
 * may be on another branch, and hold work of his that nobody meant to commit.
 */
export async function planTree(
  top: string,
  parent: string,
  branch: string,
  changes: readonly PathChange[],
  blobs: BlobReader,
): Promise<PlannedTree> {
  const bases = await cleanedItems(top, parent, changes.map(sideOf('base')), blobs)
  const wanted = await cleanedItems(top, parent, changes.map(sideOf('wanted')), blobs)
  const tip = await treeItems(top, parent)
  const items: ChangedItem[] = []
  const notes: string[] = []
  const clashes: string[] = []
  // What the branch has made of a file under its old name is woven in under the new one.
  const moved = changes.flatMap(({ path, from }) => {
    const mine = from === undefined ? undefined : tip.get(from)
    const isOther = mine !== undefined && !sameItem(mine, bases.get(from as BytePath) ?? null)
    return isOther && !tip.has(path) ? [[path, from as BytePath] as const] : []
  })
  const oldNames = new Map(moved)
  const leaving = new Set(oldNames.values())
  for (const { path, ignored } of changes) {
    const old = oldNames.get(path) ?? path
    const [base, mine, theirs] = [bases.get(old), tip.get(old), wanted.get(path)].map(
      (item) => item ?? null,
    ) as [GitItem | null, GitItem | null, GitItem | null]
    if (leaving.has(path)) {
      items.push({ path, item: null })
      continue
    }
    if (old === path && (sameItem(base, theirs) || sameItem(mine, theirs))) continue
    if (parentsOf(path).some((at) => tip.get(at)?.mode === submodule)) {
      notes.push(`${toText(path)} belongs to a submodule and is not in the commit`)
      continue
    }
    if (mine === null && base !== null && ignored) {
      notes.push(`${toText(path)} is not on ${branch}, ignored by git, and not in the commit`)
      continue
    }
    const merged = await mergeItems(top, base, mine, theirs)
    if (merged === undefined) clashes.push(toText(path))
    else items.push({ path, item: merged })
  }
  const going = new Set(items.filter(({ item }) => item === null).map(({ path }) => path))
  const staying = [...tip.keys()].filter((path) => !going.has(path))
  const folders = new Set(staying.flatMap(parentsOf))
  const there = new Set(staying)
  for (const { path, item } of items) {
    if (item === null) continue
    if (folders.has(path) || parentsOf(path).some((at) => there.has(at))) clashes.push(toText(path))
  }
  if (clashes.length > 0) throw doesNotMerge(branch, clashes)
  return { oid: await writeItems(top, parent, items), items, notes }
}
const sideOf =
  (which: 'base' | 'wanted') =>
  (change: PathChange): { path: BytePath; side: Side | null } => ({ path: change.path, side: change[which] })

export function sameItem(a: GitItem | null, b: GitItem | null): boolean {
  return a === null || b === null ? a === b : a.mode === b.mode && a.oid === b.oid
}

/** Undefined where the two changes contradict each other. */
export async function mergeItems(
  top: string,
  base: GitItem | null,
  mine: GitItem | null,
  theirs: GitItem | null,
): Promise<GitItem | null | undefined> {
  if (sameItem(mine, base) || sameItem(mine, theirs)) return theirs
  if (sameItem(theirs, base)) return mine
  if (base === null || mine === null || theirs === null) return undefined
  const isText = [base, mine, theirs].every(({ mode }) => mode !== link && mode !== submodule)
  const mode = mine.mode === base.mode ? theirs.mode : mine.mode
  if (!isText || (theirs.mode !== base.mode && theirs.mode !== mode)) return undefined
  if (mine.oid === base.oid) return { mode, oid: theirs.oid }
  if (theirs.oid === base.oid || theirs.oid === mine.oid) return { mode, oid: mine.oid }
  const read = ({ oid }: GitItem) => userGitBytes(['cat-file', 'blob', oid], { cwd: top })
  const merged = await mergeTexts([await read(mine), await read(base), await read(theirs)], null)
  if (merged === null) return undefined
  return { mode, oid: await userGit(['hash-object', '-w', '--stdin'], { cwd: top, input: merged }) }
}

/** What git would keep of these contents: line ends and filters as the user's settings want them. */
export async function cleanedItems(
  top: string,
  parent: string,
  sides: readonly { readonly path: BytePath; readonly side: Side | null }[],
  blobs: BlobReader,
): Promise<Map<BytePath, GitItem>> {
  const present = sides.filter(({ side }) => side?.kind === 'file' || side?.kind === 'symlink')
  if (present.length === 0) return new Map()
  const folder = await makeScratch('orangery-commit-')
  try {
    const tree = join(folder, 'tree')
    await mkdir(tree)
    const at = (path: BytePath) => Buffer.concat([Buffer.from(`${tree}/`), toBytes(path)])
    // Links last: nothing can be written through one that way.
    const ordered = present.toSorted((a, b) => Number(isLink(a.side)) - Number(isLink(b.side)))
    for (const { path, side } of ordered) {
      await mkdir(at(parentOf(path)), { recursive: true })
      if (side?.kind === 'symlink') await symlink(await blobs.read(side.oid), at(path))
      if (side?.kind === 'file') await writeBlob(at(path), side, blobs)
    }
    const index = await privateIndex(top, parent, folder)
    const env = {
      ...index,
      GIT_DIR: await userGit(['rev-parse', '--absolute-git-dir'], { cwd: top }),
      GIT_WORK_TREE: tree,
    }
    const paths = new Set(present.map(({ path }) => path))
    const input = Buffer.concat([...paths].map((path) => Buffer.concat([toBytes(path), zero])))
    const add = ['-c', 'core.safecrlf=false', 'update-index', '--add', '--replace', '-z', '--stdin']
    await userGit(add, { cwd: tree, env, input })
    const listed = await userGitBytes(['ls-files', '-s', '-z'], { cwd: tree, env })
    return new Map(
      rowsOf(listed).flatMap(({ head, path }) => {
        const [mode = '', oid = ''] = head
        return paths.has(path) ? [[path, { mode, oid }] as const] : []
      }),
    )
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
const zero = Buffer.from([0])
const isLink = (side: Side | null) => side?.kind === 'symlink'

async function writeBlob(
  at: Buffer,
  side: Extract<Side, { kind: 'file' }>,
  blobs: BlobReader,
): Promise<void> {
  await using file = await open(at, 'wx', 0o600)
  for await (const chunk of blobs.stream(side.oid)) await file.write(chunk)
  await chmod(at, (side.mode & 0o100) === 0 ? 0o600 : 0o700)
}

/** An index of its own: that of the user is not touched. */
async function privateIndex(
  top: string,
  parent: string,
  folder: string,
): Promise<{ GIT_INDEX_FILE: string }> {
  const env = { GIT_INDEX_FILE: join(folder, 'index') }
  if (parent !== '') await userGit(['read-tree', parent], { cwd: top, env })
  return env
}

async function treeItems(top: string, commit: string): Promise<Map<BytePath, GitItem>> {
  if (commit === '') return new Map()
  const listed = await userGitBytes(['ls-tree', '-r', '-z', '--full-tree', commit], { cwd: top })
  return new Map(
    rowsOf(listed).map(({ head: [mode = '', , oid = ''], path }) => [path, { mode, oid }] as const),
  )
}

function rowsOf(listed: Buffer): { head: readonly string[]; path: BytePath }[] {
  return fromBytes(listed)
    .split('\0')
    .filter((row) => row !== '')
    .map((row) => {
      const cut = row.indexOf('\t')
      return { head: row.slice(0, cut).split(' '), path: row.slice(cut + 1) as BytePath }
    })
}

async function writeItems(top: string, parent: string, items: readonly ChangedItem[]): Promise<string> {
  const folder = await makeScratch('orangery-index-')
  try {
    const env = await privateIndex(top, parent, folder)
    await updateIndex(top, items, env)
    return await userGit(['write-tree'], { cwd: top, env })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Removals first: a folder that becomes a file has to be empty by then. */
async function updateIndex(
  top: string,
  items: readonly ChangedItem[],
  env: Readonly<Record<string, string>>,
): Promise<void> {
  if (items.length === 0) return
  const isLong = (await askGit(['rev-parse', '--show-object-format'], top)) === 'sha256'
  const none = '0'.repeat(isLong ? 64 : 40)
  const row = ({ path, item }: ChangedItem) => {
    const head = item === null ? `0 ${none}\t` : `${item.mode} ${item.oid}\t`
    return Buffer.concat([Buffer.from(head), toBytes(path), zero])
  }
  const ordered = items.toSorted((a, b) => Number(a.item !== null) - Number(b.item !== null))
  const input = Buffer.concat(ordered.map(row))
  await userGit(['update-index', '-z', '--index-info'], { cwd: top, env, input })
}

function doesNotMerge(branch: string, clashes: readonly string[]): OrangeryError {
  const [first, ...others] = clashes
  const more = others.length === 0 ? '' : ` (and ${others.length} more)`
  return new OrangeryError(
    'changeset.commit_conflict',
    `cannot commit to ${branch}: ${first}: what was reviewed does not fit what ${branch} has there${more}`,
    {
      kind: 'busy',
      hint: 'Nothing was changed. Name another branch, or apply without --commit and commit it yourself.',
      details: { paths: clashes },
    },
  )
}
