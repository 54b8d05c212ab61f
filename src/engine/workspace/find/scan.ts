import { lstat, readdir, readFile } from 'node:fs/promises'
import { OrangeryError } from '../../../shared/errors.ts'
import { isDispatchId, type DispatchId, type RepoId } from '../../../shared/ids.ts'
import { shellLine } from '../../../shared/shellLine.ts'
import {
  invocationMetaSchema,
  worktreeMetaSchema,
  type InvocationEntry,
  type WorktreeEntry,
} from '../../base/invocation.ts'
import type { Layout } from '../../base/paths.ts'
import { namesOwnSandbox, namesOwnWorktree } from './ownTree.ts'

/** Every invocation on disk, whole or broken. Looks, and never repairs. */
export async function scanInvocations(layout: Layout): Promise<InvocationEntry[]> {
  const entries: InvocationEntry[] = []
  for (const repoId of await repoIds(layout)) {
    const recorded = await idsIn(layout.invocations(repoId))
    const built = await idsIn(layout.sandboxes(repoId))
    for (const id of union(recorded, built)) entries.push(await inspectInvocation(layout, repoId, id))
  }
  return entries.sort((one, other) => one.id.localeCompare(other.id))
}

export async function inspectInvocation(
  layout: Layout,
  repoId: RepoId,
  id: DispatchId,
): Promise<InvocationEntry> {
  const read = await readJson(layout.invocationMeta(repoId, id))
  const parsed = read === undefined ? null : invocationMetaSchema.safeParse(read)
  const named = parsed?.success === true && parsed.data.invocation_id === id ? parsed.data : null
  const meta = named !== null && (await namesOwnSandbox(layout, repoId, named)) ? named : null
  const tree = meta?.sandbox_path ?? layout.sandbox(repoId, id)
  const standing = await isFolder(tree)
  let why: string | null = null
  if (meta === null) {
    why = unreadable(read, named?.sandbox_path)
    if (!standing) why += ', and its sandbox is missing'
  } else if (meta.outcome === null && !standing) why = `its sandbox ${tree} is missing`
  return { repo_id: repoId, id, meta, broken: why !== null, why }
}

export async function scanWorktrees(layout: Layout): Promise<WorktreeEntry[]> {
  const entries: WorktreeEntry[] = []
  for (const repoId of await repoIds(layout)) {
    for (const id of await idsIn(layout.worktrees(repoId)))
      entries.push(await inspectWorktree(layout, repoId, id))
  }
  return entries.sort((one, other) => one.id.localeCompare(other.id))
}

export async function inspectWorktree(
  layout: Layout,
  repoId: RepoId,
  id: DispatchId,
): Promise<WorktreeEntry> {
  const read = await readJson(layout.worktreeMeta(repoId, id))
  const parsed = read === undefined ? null : worktreeMetaSchema.safeParse(read)
  const named = parsed?.success === true && parsed.data.worktree_id === id ? parsed.data : null
  const meta = named !== null && (await namesOwnWorktree(layout, repoId, named)) ? named : null
  const standing = await isFolder(layout.worktreeTree(repoId, id))
  const why =
    meta === null
      ? unreadable(read, named?.tree_path)
      : meta.outcome === null && !standing
        ? `its tree ${meta.tree_path} is missing`
        : null
  return { repo_id: repoId, id, meta, broken: why !== null, why }
}

function unreadable(read: unknown, otherTree: string | undefined): string {
  if (read === undefined) return 'its meta.json is missing'
  if (read instanceof Closed) return read.why
  if (otherTree === undefined) return 'its meta.json cannot be understood'
  return `its meta.json names a tree that is not its own, ${otherTree}`
}

/** By full id or unique prefix, never by name. A broken one answers only to its full id. */
export async function resolveInvocation(layout: Layout, reference: string): Promise<InvocationEntry> {
  return pick('invocation', reference, await scanInvocations(layout), () => false)
}

/** By id, name or unique prefix. A broken one answers only to its full id. */
export async function resolveWorktree(
  layout: Layout,
  reference: string,
  repoId: RepoId | null = null,
): Promise<WorktreeEntry> {
  const all = await scanWorktrees(layout)
  const near = repoId === null ? [] : all.filter((entry) => entry.repo_id === repoId)
  const named = (entry: WorktreeEntry) => entry.meta?.name === reference
  // A name is unique within a project; the caller's own project comes first.
  return pick('worktree', reference, near.some(named) ? near : all, named)
}

function pick<T extends InvocationEntry | WorktreeEntry>(
  what: 'invocation' | 'worktree',
  reference: string,
  entries: readonly T[],
  isNamed: (entry: T) => boolean,
): T {
  const exact = entries.filter((entry) => entry.id === reference)
  const whole = entries.filter((entry) => !entry.broken && !isGone(entry))
  const found =
    exact.length > 0
      ? exact
      : firstNonEmpty(
          whole.filter(isNamed),
          reference === '' ? [] : whole.filter((entry) => entry.id.startsWith(reference)),
        )
  const [only, ...others] = found
  if (only === undefined) {
    const list = what === 'invocation' ? 'orangery agent ls --all' : 'orangery worktree ls'
    throw new OrangeryError('workspace.not_found', `${what} ${reference}: there is none`, {
      kind: 'not_found',
      hint: `\`${list}\` lists them; ${what === 'invocation' ? 'a name is not an id' : 'use a name, an id or the start of one'}.`,
    })
  }
  if (others.length > 0) {
    throw new OrangeryError(
      'workspace.ambiguous',
      `${what} ${reference}: it could be ${found.map((entry) => entry.id).join(', ')}`,
      { kind: 'not_found', hint: 'Use more of the id.' },
    )
  }
  return only
}

function isGone(entry: InvocationEntry | WorktreeEntry): boolean {
  return entry.meta !== null && entry.meta.outcome !== null
}

function firstNonEmpty<T>(...lists: readonly T[][]): T[] {
  return lists.find((list) => list.length > 0) ?? []
}

function union(one: readonly DispatchId[], other: readonly DispatchId[]): DispatchId[] {
  return [...new Set([...one, ...other])]
}

async function repoIds(layout: Layout): Promise<RepoId[]> {
  const names = await readdir(layout.repos).catch((): string[] => [])
  return names.filter((name) => /^[0-9a-f]{16}$/.test(name)) as RepoId[]
}

async function idsIn(folder: string): Promise<DispatchId[]> {
  const names = await readdir(folder).catch((): string[] => [])
  return names.filter(isDispatchId)
}

/** A record that is there and that we may not look into: nothing is wrong with it but that. */
class Closed {
  readonly why: string
  constructor(path: string, code: string | undefined) {
    const help = code === 'EACCES' ? `; what helps: ${shellLine(['chmod', 'u+r', path])}` : ''
    this.why = `its meta.json cannot be read (${code})${help}`
  }
}

/** Undefined where there is no file; null where it holds no JSON. */
async function readJson(path: string): Promise<unknown> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => error)
  if (text instanceof Error) return text.code === 'ENOENT' ? undefined : new Closed(path, text.code)
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}

export async function isFolder(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => null))?.isDirectory() === true
}
