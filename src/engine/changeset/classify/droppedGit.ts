import { readFrozenRefs } from '../../base/frozenRefs.ts'
import type { WorkspaceRoot } from '../../base/workspace.ts'
import { fromText, joinPath, namedPath, type BytePath } from '../bytePath.ts'
import { gitPartOf, isMarker, isOfApply } from './classify.ts'
import type { Manifest } from '../manifest.ts'
import type { RootScan, Seen } from '../capture/scan.ts'

type Dropped = Manifest['dropped'][number]

/** Changes under `.git`, told by the folder they lie in: an object store is no reading matter. */
export function droppedGit(root: Pick<WorkspaceRoot, 'path'>, seen: readonly Seen[]): Dropped[] {
  const found = new Map<string, string>()
  const originals = new Set(seen.filter((each) => each.base !== null).map((each) => each.path))
  for (const { path, result, base } of seen) {
    const part = gitPartOf(path)
    if (
      part === null ||
      ((result === null || result.isDirectory()) && path !== part && base?.isFile() !== true)
    )
      continue
    if (path === part && base?.isDirectory() === true && result?.isDirectory() === true) continue
    if (part !== '.git' && !originals.has(part)) {
      found.set(part, 'a new nested repository: its files are shown, its .git never lands')
      continue
    }
    const inside = path.slice(part.length + 1).split('/')
    const isBulk = ['objects', 'logs'].includes(inside[0] ?? '')
    const runs = inside[0] === 'hooks' || inside[0]?.startsWith('config') === true
    const why = runs ? 'git runs what is in here: it never lands' : "git's own files never land as files"
    found.set(isBulk ? `${part}/${inside[0]}` : path, why)
  }
  return [...found].map(([path, why]) => ({ root: root.path, ...namedPath(path as BytePath), why }))
}

/**
 * A marker where the user has none is the agent's own, or something in the place of their folder. None ever lands, where
 * it could make a folder pass for a tree of ours.
 */
export function droppedMarkers(root: Pick<WorkspaceRoot, 'path'>, seen: readonly Seen[]): Dropped[] {
  const isAgents = ({ path, result, base }: Seen) =>
    isMarker(path) && !isOfApply(path) && result?.isDirectory() === false && base?.isFile() !== true
  const why = 'only Orangery makes these: it never lands'
  return seen.filter(isAgents).map(({ path }) => ({ root: root.path, ...namedPath(path), why }))
}

/**
 * The same for a git folder that is a root of its own, as in a worktree sandbox: told as the `.git` of the project, which
 * is where a reviewer looks for it.
 */
export function droppedInGitRoot(project: string, { root, seen, unreadable }: RootScan): Dropped[] {
  const git = fromText(root.path.endsWith('/modules') ? '.git/modules' : '.git')
  const told = seen
    .filter(({ path }) => !ownState.test(path))
    .map((each) => ({ ...each, path: joinPath(git, each.path) }))
  const closed = unreadable.map((path) => ({
    root: project,
    ...namedPath(joinPath(git, path)),
    why: 'the agent made this folder unreadable',
  }))
  return [...closed, ...droppedGit({ path: project }, told)]
}

/** A scan of a git folder without the refs that we laid there ourselves, and without what they hide. */
export async function withoutFrozen(scan: RootScan): Promise<RootScan> {
  const frozen = await readFrozenRefs(scan.root.mount)
  if (frozen === null) return scan
  const seen: Seen[] = []
  for (const each of scan.seen) {
    const isHidden = each.result === null && /^(refs|logs)\//.test(each.path)
    if (!isHidden && !(await frozen.isUntouched(each.path))) seen.push(each)
  }
  return { ...scan, seen }
}

/** What git writes for the checkout the agent has, whatever it does there. */
const ownState = /^worktrees\/[^/]+\/(index|HEAD|ORIG_HEAD|COMMIT_EDITMSG|logs(\/.*)?)$/
