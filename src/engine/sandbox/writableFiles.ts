import type { Stats } from 'node:fs'
import { lstat, readlink, realpath, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { CheckResult } from '../../shared/doctor.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { SandboxRequest } from '../base/sandbox.ts'
import type { WorkspaceRoot } from '../base/workspace.ts'
import type { SandboxPlan } from './plan.ts'
import { isInside, rootAround, writableFileSteps } from './view.ts'

/** A file that is to stay writable: where it really is in its root, or why it cannot be one. */
type Resolved =
  | { readonly path: string; readonly why: null }
  | { readonly path: null; readonly why: string; readonly fix: string }

type Entry =
  | { readonly kind: 'absent' | 'file' | 'other' }
  | { readonly kind: 'link'; readonly to: string }
  | { readonly kind: 'folder'; readonly layers: readonly string[] }

const mostLinks = 40

const statOf = (path: string): Promise<Stats | null> =>
  lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null
    throw error
  })

/** Where overlayfs keeps that something was deleted. */
const isWhiteout = (stats: Stats) => stats.isCharacterDevice() && stats.rdev === 0

/** One name in a folder that several layers make up, the uppermost first. */
async function lookUp(folders: readonly string[], name: string): Promise<Entry> {
  const layers: string[] = []
  for (const folder of folders) {
    const path = join(folder, name)
    const stats = await statOf(path)
    if (stats === null) continue
    if (stats.isDirectory()) {
      layers.push(path)
      continue
    }
    if (layers.length > 0 || isWhiteout(stats)) break
    if (stats.isSymbolicLink()) return { kind: 'link', to: await readlink(path) }
    return { kind: stats.isFile() ? 'file' : 'other' }
  }
  return layers.length === 0 ? { kind: 'absent' } : { kind: 'folder', layers }
}

/** Before a workspace is made there are the user's files only. */
async function layersOf({ mount, path }: WorkspaceRoot): Promise<readonly string[]> {
  const layers = mount.kind === 'bind' ? [mount.source] : [mount.upper, mount.lower]
  const there = await Promise.all(layers.map(statOf))
  return there.every((stats) => stats === null) ? [path] : layers
}

const replace = 'Put a regular file in its place, or name another file in sandboxPhaseFiles.'
const unusable = (why: string, fix = replace): Resolved => ({ path: null, why, fix })

/**
 * Follows links, one name at a time, only as far as the root goes: they come with the repository, and who made it
 * would choose which of the user's files is opened. (escape: phase-file-link)
 */
async function resolveInside(
  root: WorkspaceRoot,
  path: string,
  strategy: SandboxRequest['workspace']['strategy'],
): Promise<Resolved> {
  const base = await layersOf(root)
  // In a worktree sandbox the real path is the user's integration tree, which is not there inside.
  const places = strategy === 'worktree' ? [root.target] : [root.target, root.path]
  const pending = path.slice(root.target.length).split('/')
  let walked: { readonly name: string; readonly layers: readonly string[] }[] = []
  let links = 0
  for (let name = pending.shift(); name !== undefined; name = pending.shift()) {
    if (name === '' || name === '.') continue
    if (name === '..') {
      if (walked.pop() === undefined) return unusable('is a link that leads out of the root')
      continue
    }
    const entry = await lookUp(walked.at(-1)?.layers ?? base, name)
    const isLast = pending.every((part) => part === '' || part === '.')
    const here = [root.target, ...walked.map((folder) => folder.name), name].join('/')
    if (entry.kind === 'link') {
      if (++links > mostLinks) return unusable('is a link that leads to itself')
      const { to } = entry
      const place = to.startsWith('/') ? places.find((folder) => isInside(to, folder)) : ''
      if (place === undefined) return unusable('is a link that leads out of the root')
      if (place !== '') walked = []
      pending.unshift(...to.slice(place.length).split('/'))
    } else if (entry.kind === 'folder') walked.push({ name, layers: entry.layers })
    else if (!isLast) {
      const why = entry.kind === 'absent' ? 'is not there' : 'is no folder'
      return unusable(
        `its folder ${here} ${why}`,
        'Make the folder, or name another file in sandboxPhaseFiles.',
      )
    } else if (entry.kind === 'other') return unusable('is no regular file')
    else if (links > 0 && here.slice(root.target.length).split('/').includes('.git'))
      return unusable('is a link that leads into .git')
    else return { path: here, why: null }
  }
  return unusable(links > 0 ? 'is a link to a folder' : 'is a folder')
}

type Found = Resolved & { readonly named: string }

/** Those that can be made writable: not at level 0, where the agent has no view of its own, nor the real files. */
async function resolveAll({ workspace, writableFiles, level }: SandboxRequest): Promise<readonly Found[]> {
  if (level === 0 || workspace.strategy === 'none') return []
  const found = await Promise.all(
    writableFiles.map(async (named): Promise<readonly Found[]> => {
      const root = rootAround(named, workspace.roots)
      if (root === undefined || root.access !== 'rw') return []
      const resolved = await resolveInside(root, named, workspace.strategy).catch(
        (error: NodeJS.ErrnoException) => unusable(`cannot be looked at (${error.code ?? error.message})`),
      )
      return [{ ...resolved, named }]
    }),
  )
  return found.flat()
}

/** What is wrong with the files a read-only boundary leaves writable. Where all can be written they are left out. */
export async function checkWritableFiles(request: SandboxRequest): Promise<readonly CheckResult[]> {
  return (await resolveAll(request)).flatMap((file): readonly CheckResult[] => {
    if (file.why === null) return []
    const ok = request.files === 'rw'
    const detail = `${file.named} ${file.why}${ok ? '; were the boundary narrowed, it could not be written' : ''}`
    return [{ name: 'writable file', ok, detail, fix: file.fix }]
  })
}

/** The plan with those files where they really are. */
export async function withWritableFiles(plan: SandboxPlan): Promise<SandboxPlan> {
  const { request } = plan
  if (request.writableFiles.length === 0) return plan
  const found = await resolveAll(request)
  const wrong = found.find((file) => file.why !== null)
  if (wrong !== undefined && wrong.why !== null && request.files === 'ro') {
    throw new OrangeryError('sandbox.writable_file', `${wrong.named}: ${wrong.why}`, {
      kind: 'preflight',
      hint: wrong.fix,
    })
  }
  const paths = [...new Set(found.flatMap(({ path }) => (path === null ? [] : [path])))]
  const { roots } = request.workspace
  const planned = new Set(
    request.writableFiles.flatMap((path) => writableFileSteps(path, roots)).map(({ target }) => target),
  )
  const view = plan.view.filter((step) => step.kind !== 'writable' || !planned.has(step.target))
  const seal = view.findIndex((step) => step.kind === 'sealed' && step.target === '/')
  const steps = paths.flatMap((path) => writableFileSteps(path, roots))
  return {
    ...plan,
    request: { ...request, writableFiles: paths },
    roots: plan.roots.map((root) => ({
      ...root,
      touched: paths.filter((path) => rootAround(path, roots)?.target === root.target),
    })),
    view: seal === -1 ? view : [...view.slice(0, seal), ...steps, ...view.slice(seal)],
  }
}

/** A file that is there only so that it can be written, and the folder it is in. */
export type MadeFile = { readonly path: string; readonly folder: string }

/**
 * Those of a complete plan that do not exist yet. In an overlay the holder makes them; in a copy of the user's
 * files we do, since a mount needs something to stand on.
 */
export async function absentFiles({ request }: SandboxPlan): Promise<readonly MadeFile[]> {
  const made = await Promise.all(
    request.writableFiles.map(async (path): Promise<readonly MadeFile[]> => {
      const root = rootAround(path, request.workspace.roots)
      if (root === undefined) return []
      const inside = path.slice(root.target.length)
      const { mount } = root
      const layers = mount.kind === 'bind' ? [mount.source] : [mount.upper, mount.lower]
      const places = layers.map((layer) => layer + inside)
      const there = await Promise.all(places.map((place) => statOf(place)))
      const [place] = places
      if (place === undefined || there.some((stats) => stats !== null)) return []
      if (mount.kind === 'bind') await writeFile(place, '', { flag: 'wx' })
      const folder = await realpath(dirname(place)).catch(() => dirname(place))
      return [{ path: place, folder }]
    }),
  )
  return made.flat()
}

/** They are taken away again if nobody wrote them. */
export async function removeUnwritten(files: readonly MadeFile[]): Promise<void> {
  for (const { path, folder } of files) {
    // The agent may have put a link in its folder's place, to have a file of the host's removed.
    if ((await realpath(dirname(path)).catch(() => null)) !== folder) continue
    const stats = await statOf(path).catch(() => null)
    if (stats?.isFile() && stats.size === 0) await rm(path, { force: true })
  }
}
