import { join } from 'node:path'
import type { FrozenRefs } from '../../base/frozenRefs.ts'
import { git, tryGit } from '../../base/git.ts'
import { assertOwnGit } from '../../base/ownGit.ts'
import { unlessMissing, type Disk } from '../disk.ts'
import { fromBytes, fromText, joinPath, nameOf, parentOf, type BytePath } from '../bytePath.ts'
import { contentOf } from '../capture/content.ts'
import type { Manifest } from '../manifest.ts'
import { Tree } from '../objects/tree.ts'

type Commit = Manifest['commits'][number]
/** A repository as the agent left it, beside what it started from. */
export type AgentRepository = {
  readonly root: string
  /** Where below the root it lies; absent for the root's own. */
  readonly folder?: string
  /** Path of a submodule's repository below `modules`, or of a linked worktree's below `.git`; absent for the repository itself. */
  readonly submodule?: string
  readonly agentGit: string
  /** What it started from. */
  readonly realGit: string
  /** The user's own, which gets its commits when they land. */
  readonly landsIn: string
  /** Its refs as the agent found them, where it did not see the user's own. */
  readonly frozen?: FrozenRefs
}

export const linkedFolder = 'worktrees'
/** What a commit that no ref holds is called here. */
export const leftPrefix = 'left/'
export const isLeft = (ref: string): boolean => ref.startsWith(leftPrefix)
const mostLeft = 50
const isOid = /^([0-9a-f]{40}|[0-9a-f]{64})$/
/** Copies of what is elsewhere, and what git itself needs only for a moment. */
const passing = /^refs\/(remotes|bisect|rewritten|orangery)\//

export type AgentTips = {
  readonly tips: readonly Commit[]
  /** Named by SHA-256. */
  readonly foreign: readonly string[]
  /** Refs of the user that were only put on another commit of his. */
  readonly moved: readonly { readonly ref: string; readonly oid: string }[]
  /** Commits that its HEADs and stashes went past and that may be on no branch any more. */
  readonly passed: readonly string[]
  /** All that the user's own refs stand on. */
  readonly known: readonly string[]
}
const nothing: AgentTips = { tips: [], foreign: [], moved: [], passed: [], known: [] }

/** Refs and detached HEADs that point elsewhere than in the user's repository, and where they went in between. */
export async function changedTips(
  { root, folder, submodule, agentGit, realGit, frozen }: AgentRepository,
  /** The roots of the workspace: a checkout there is the agent's own, also where it is a linked one. */
  checkouts: readonly string[],
  disk: Disk,
): Promise<AgentTips> {
  await using tree = new Tree(agentGit, disk)
  await using real = new Tree(realGit, disk)
  const heads = await headsOf(tree, real, checkouts)
  const theirs = new Map([...(await refsOf(tree)), ...detached(heads)])
  const passed = await passedCommits(tree, real, heads, frozen)
  if (theirs.size === 0 && passed.length === 0) return nothing
  await assertOwnGit(realGit)
  const now = await userRefs(realGit)
  const ours = frozen?.refs ?? now
  const checkedOut = heads.find(({ name }) => name === 'HEAD')?.value ?? ''
  const tips: Commit[] = []
  const foreign: string[] = []
  const moved: AgentTips['moved'][number][] = []
  for (const [ref, oid] of theirs) {
    if (ours.get(ref) === oid || !/^[\x21-\x7e]+$/.test(ref)) continue
    const isHead = heads.some(({ name }) => name === ref)
    if (!isHead && (await tryGit(['check-ref-format', ref])).code !== 0) continue
    const base = ours.get(ref) ?? (await headOf(realGit, isHead ? pathOfHead(ref, heads) : 'HEAD'))
    if (base === oid) continue
    if (oid.length > 40) {
      foreign.push(ref)
      continue
    }
    // Looking at an old commit makes none, nor does a new name for it; of a submodule it says what the agent wants it to be.
    if (submodule === undefined && (await isHeld(realGit, oid))) {
      if (ours.has(ref)) moved.push({ ref, oid })
      continue
    }
    tips.push({
      root,
      ref,
      oid,
      base,
      ...(folder === undefined ? {} : { folder }),
      ...(submodule === undefined ? {} : { submodule }),
      ...(ref === 'HEAD' || checkedOut === `ref: ${ref}` ? { head: true } : {}),
    })
  }
  const known = [...new Set([...ours.values(), ...now.values()])].filter((oid) => oid.length === 40)
  return { tips, foreign, moved, passed: passed.filter((oid) => oid.length === 40), known }
}

/** A HEAD of the repository: that of its main checkout, and of each linked one. */
type Head = { readonly name: string; readonly path: string; readonly value: string }

export async function headsOf(tree: Tree, real: Tree, checkouts: readonly string[]): Promise<Head[]> {
  const linked: Head[] = []
  for (const entry of (await unlessMissing(tree.list(fromText(linkedFolder)))) ?? []) {
    const path = `${linkedFolder}/${fromBytes(entry)}`
    // Which checkout it is for is the user's word: the agent may have written another into its own layer.
    const checkout = (await readSmall(real, fromText(`${path}/gitdir`)))?.trim()
    const isOwn = checkouts.some((folder) => checkout === join(folder, '.git'))
    const value = await headIn(tree, real, `${path}/HEAD`)
    linked.push({ name: isOwn ? 'HEAD' : `${path}/HEAD`, path: `${path}/HEAD`, value })
  }
  const isLinked = linked.some(({ name }) => name === 'HEAD')
  const main = { name: isLinked ? 'main/HEAD' : 'HEAD', path: 'HEAD' }
  return [...linked, { ...main, value: await headIn(tree, real, 'HEAD') }]
}

/** The layer of the agent has it only if it switched branches. */
async function headIn(tree: Tree, real: Tree, path: string): Promise<string> {
  const at = fromText(path)
  // Git makes a link of it where it is told to (`core.preferSymlinkRefs`).
  if ((await tree.lstat(at))?.isSymbolicLink() === true)
    return `ref: ${String(await tree.within(parentOf(at), (folder) => tree.disk.readlink(folder.at(nameOf(at)))))}`
  const value = (await readSmall(tree, at)) ?? (await readSmall(real, at))
  return value?.trim() ?? ''
}

const detached = (heads: readonly Head[]): [string, string][] =>
  heads.flatMap(({ name, value }) => (isOid.test(value) ? [[name, value]] : []))

const pathOfHead = (name: string, heads: readonly Head[]): string =>
  heads.find((head) => head.name === name)?.path ?? 'HEAD'

async function refsOf(tree: Tree): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  const note = (ref: string, oid: string) => {
    if (isOid.test(oid) && !passing.test(ref)) found.set(ref, oid)
  }
  for (const line of ((await readSmall(tree, fromText('packed-refs'))) ?? '').split('\n')) {
    const match = /^([0-9a-f]{40,64}) (refs\/.+)$/.exec(line)
    if (match?.[1] !== undefined && match[2] !== undefined) note(match[2], match[1])
  }
  for (const path of await filesBelow(tree, fromText('refs'), 7))
    note(path, (await readSmall(tree, path))?.trim() ?? '')
  return found
}

/** What the agent's own reflogs name and the user's do not. */
async function passedCommits(
  tree: Tree,
  real: Tree,
  heads: readonly Head[],
  frozen: FrozenRefs | undefined,
): Promise<string[]> {
  const found = new Set<string>()
  // A checkout that is gone leaves no more of its commits than the logs of its branches.
  const branches = (await filesBelow(tree, fromText('logs/refs'), 7)).filter(
    (path) => !passing.test(path.slice(5)),
  )
  const [ownLogs, ownRefs] = await ofLinked(tree, heads)
  for (const path of ownRefs) {
    const oid = (await readSmall(tree, path))?.trim() ?? ''
    if (isOid.test(oid)) found.add(oid)
  }
  const logs = [...branches, ...ownLogs].slice(0, mostLogs)
  for (const path of [...heads.map((head) => logOf(head.path)), ...logs]) {
    const text = (await readSmall(tree, fromText(path))) ?? ''
    const before = text === '' ? null : (frozen?.files.get(path) ?? (await readSmall(real, fromText(path))))
    const own = before !== null && text.startsWith(before) ? text.slice(before.length) : text
    for (const [, from = '', to = ''] of own.matchAll(/^([0-9a-f]{40,64}) ([0-9a-f]{40,64}) /gm))
      for (const oid of [from, to]) if (!/^0+$/.test(oid)) found.add(oid)
  }
  return [...found]
}

/** Logs and refs that a linked checkout has to itself, `refs/worktree/…` for one. */
async function ofLinked(tree: Tree, heads: readonly Head[]): Promise<[logs: BytePath[], refs: BytePath[]]> {
  const logs: BytePath[] = []
  const refs: BytePath[] = []
  for (const { path } of heads.filter((head) => head.path !== 'HEAD')) {
    const folder = path.replace(/HEAD$/, '')
    logs.push(...(await filesBelow(tree, fromText(`${folder}logs/refs`), 5)))
    refs.push(...(await filesBelow(tree, fromText(`${folder}refs`), 5)))
  }
  return [logs, refs.slice(0, mostLogs)]
}
const mostLogs = 2_000
const logOf = (head: string): string => head.replace(/HEAD$/, 'logs/HEAD')

async function userRefs(realGit: string): Promise<Map<string, string>> {
  const listed = await tryGit(['for-each-ref', '--format=%(objectname) %(refname)'], { gitDir: realGit })
  return new Map(
    listed.stdout
      .toString('latin1')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => [line.slice(line.indexOf(' ') + 1), line.slice(0, line.indexOf(' '))]),
  )
}

async function headOf(realGit: string, path: string): Promise<string | null> {
  const head = await tryGit(['rev-parse', '--verify', '--quiet', '--end-of-options', path], {
    gitDir: realGit,
  })
  return head.code === 0 ? head.stdout.toString().trim() : null
}

async function isHeld(realGit: string, oid: string): Promise<boolean> {
  const holders = await tryGit(['for-each-ref', '--count=1', `--contains=${oid}`], { gitDir: realGit })
  return holders.code === 0 && holders.stdout.length > 0
}

/**
 * The last of the commits that the agent made and no ref holds: on a HEAD that was detached and left, on a branch it
 * deleted, before an amend. Asked when its objects are in our own repository.
 */
export async function leftCommits(
  { tips, passed, known }: AgentTips,
  { root, folder, submodule, realGit }: AgentRepository,
  where: { readonly gitDir: string; readonly env: Record<string, string> },
): Promise<{ readonly tips: readonly Commit[]; readonly more: number }> {
  const asked = `${[...passed, ...known].join('\n')}\n`
  const checked = (
    await git(['cat-file', '--batch-check=%(objecttype) %(objectname)'], { ...where, input: asked })
  )
    .toString()
    .split('\n')
  const commits = new Set(checked.flatMap((line) => (line.startsWith('commit ') ? [line.slice(7)] : [])))
  const there = passed.filter((oid) => commits.has(oid))
  if (there.length === 0) return { tips: [], more: 0 }
  const held = [...known.filter((oid) => commits.has(oid)), ...tips.map(({ oid }) => oid)]
  const input = `${[...there, ...held.map((oid) => `^${oid}`)].join('\n')}\n`
  const walked = await git(['rev-list', '--parents', '--ignore-missing', '--stdin'], { ...where, input })
  const rows = walked
    .toString()
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split(' '))
  const parents = new Set(rows.flatMap(([, ...above]) => above))
  const last = rows.flatMap(([oid = '']) => (parents.has(oid) ? [] : [oid]))
  const base = await headOf(realGit, 'HEAD')
  const found = last.slice(0, mostLeft).map((oid) => ({
    root,
    ref: `${leftPrefix}${oid}`,
    oid,
    base,
    ...(folder === undefined ? {} : { folder }),
    ...(submodule === undefined ? {} : { submodule }),
  }))
  return { tips: found, more: last.length - found.length }
}

async function readSmall(tree: Tree, path: BytePath): Promise<string | null> {
  return (await readBytes(tree, path, 4 * 1024 * 1024))?.toString('latin1') ?? null
}

export async function readBytes(tree: Tree, path: BytePath, limit: number): Promise<Buffer | null> {
  const stat = await tree.lstat(path)
  if (stat === null || !stat.isFile() || stat.size > limit) return null
  const chunks: Buffer[] = []
  for await (const chunk of contentOf(tree, path)) chunks.push(chunk)
  return Buffer.concat(chunks)
}

async function filesBelow(tree: Tree, path: BytePath, depth: number): Promise<BytePath[]> {
  const found: BytePath[] = []
  for (const name of (await unlessMissing(tree.list(path))) ?? []) {
    const at = joinPath(path, fromBytes(name))
    const stat = await tree.lstat(at)
    if (stat?.isFile() === true) found.push(at)
    else if (stat?.isDirectory() === true && depth > 0) found.push(...(await filesBelow(tree, at, depth - 1)))
  }
  return found
}
