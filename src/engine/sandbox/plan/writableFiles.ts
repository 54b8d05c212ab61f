import type { Stats } from 'node:fs'
import { lstat, realpath, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { CheckResult } from '../../../shared/doctor.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { notePlaceholders, readPlaceholders, type Placeholder } from '../../base/placeholders.ts'
import type { SandboxRequest } from '../../base/sandbox.ts'
import type { Workspace, WorkspaceRoot } from '../../base/workspace.ts'
import type { SandboxPlan } from './plan.ts'
import {
  isInside,
  needsAlias,
  rootAround,
  writableFileSteps,
  type ViewStep,
  type WritablePlace,
} from './view.ts'

type Resolved =
  | { readonly path: string; readonly kind: WritablePlace['kind']; readonly why: null }
  | { readonly path: null; readonly why: string; readonly fix: string }

type Entry =
  | { readonly kind: 'absent' | 'file' | 'link' | 'other' }
  | { readonly kind: 'folder'; readonly layers: readonly string[] }

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
    return { kind: stats.isSymbolicLink() ? 'link' : stats.isFile() ? 'file' : 'other' }
  }
  return layers.length === 0 ? { kind: 'absent' } : { kind: 'folder', layers }
}

/** Before a workspace is made there are the user's files only. */
async function layersOf(root: WorkspaceRoot): Promise<readonly string[]> {
  const layers = layersFrom(root)
  const there = await Promise.all(layers.map(statOf))
  return there.every((stats) => stats === null) ? [root.path] : layers
}

// Nobody need have named it: a plan's TODO.md and a learn's AGENTS.md are the defaults.
const key = 'sandboxPhaseFiles of the config (of a level: writable in sandboxLevels)'
const replace = `Put a regular file or folder in its place, or name another in ${key}.`
const unusable = (why: string, fix = replace): Resolved => ({ path: null, why, fix })

/**
 * Looks at one name at a time and follows no link: they come with the repository, and who made it would choose which file
 * can be written. (escape: phase-file-link)
 */
async function resolveInside(root: WorkspaceRoot, path: string): Promise<Resolved> {
  const names = path
    .slice(root.target.length)
    .split('/')
    .filter((name) => name !== '')
  let layers = await layersOf(root)
  for (const [index, name] of names.entries()) {
    const entry = await lookUp(layers, name)
    const here = [root.target, ...names.slice(0, index + 1)].join('/')
    const isLast = index === names.length - 1
    if (entry.kind === 'folder') layers = entry.layers
    else if (entry.kind === 'link')
      return unusable(
        isLast ? 'is a link' : `its folder ${here} is a link`,
        `Name what the link leads to in ${key}.`,
      )
    else if (!isLast) {
      const why = entry.kind === 'absent' ? 'is not there' : 'is no folder'
      return unusable(`its folder ${here} ${why}`, `Make the folder, or name another in ${key}.`)
    } else if (entry.kind === 'other') return unusable('is no regular file')
    else return { path: here, kind: 'file', why: null }
  }
  return { path: [root.target, ...names].join('/'), kind: 'folder', why: null }
}

type Found = Resolved & { readonly named: string; readonly root: WorkspaceRoot }

/** Those that can be made writable: not at level 0, where the agent has no view of its own, nor the real files. */
async function resolveAll({ workspace, writableFiles, level }: SandboxRequest): Promise<readonly Found[]> {
  if (level === 0 || workspace.strategy === 'none') return []
  const found = await Promise.all(
    writableFiles.map(async (named): Promise<readonly Found[]> => {
      const root = rootAround(named, workspace.roots)
      if (root === undefined || root.access !== 'rw') return []
      const resolved = await resolveInside(root, named).catch((error: NodeJS.ErrnoException) =>
        unusable(`cannot be looked at (${error.code ?? error.message})`),
      )
      const isAround = ({ target }: WorkspaceRoot) => target !== root.target && isInside(target, named)
      return [
        { ...(workspace.roots.some(isAround) ? unusable('holds another root') : resolved), named, root },
      ]
    }),
  )
  return found.flat()
}

const writableFromStart = ({ writableFiles, writableNow }: SandboxRequest) =>
  new Set(writableNow ?? writableFiles)

/** What is wrong with the files and folders that are to be writable. Those of another level are only told of. */
export async function checkWritableFiles(request: SandboxRequest): Promise<readonly CheckResult[]> {
  const now = writableFromStart(request)
  return (await resolveAll(request)).flatMap((file): readonly CheckResult[] => {
    if (file.why === null) return []
    const ok = request.files === 'rw' || !now.has(file.named)
    const later = '; were the boundary changed to a level that names it, it could not be written'
    return [
      { name: 'writable file', ok, detail: `${file.named} ${file.why}${ok ? later : ''}`, fix: file.fix },
    ]
  })
}

function stepsOf(place: WritablePlace, request: SandboxRequest): readonly ViewStep[] {
  const { target, kind, isNow } = place
  const root = request.workspace.roots.find((candidate) => candidate.target === place.root)
  if (root === undefined || target === place.root) return []
  const access = isNow || request.files === 'rw' ? 'writable' : 'read-only'
  if (kind === 'file' || root.mount.kind === 'bind')
    return writableFileSteps(target, [root]).map((step) => ({ ...step, kind: access }))
  // From the workspace as the holder has it mounted, also where the root is named a second time.
  const second = needsAlias(root, request) ? [root.path + target.slice(root.target.length)] : []
  return [target, ...second].map((seen) => ({ kind: access, source: target, target: seen }))
}

/** The plan with those files and folders, as a look at them has found them. */
export async function withWritableFiles(plan: SandboxPlan): Promise<SandboxPlan> {
  const { request } = plan
  if (request.writableFiles.length === 0) return plan
  const found = await resolveAll(request)
  const now = writableFromStart(request)
  const wrong = found.find((file) => file.why !== null && request.files === 'ro' && now.has(file.named))
  if (wrong !== undefined && wrong.why !== null) {
    throw new OrangeryError('sandbox.writable_file', `${wrong.named}: ${wrong.why}`, {
      kind: 'preflight',
      hint: wrong.fix,
    })
  }
  const places = found
    .flatMap((file): readonly WritablePlace[] =>
      file.path === null
        ? []
        : [{ target: file.path, kind: file.kind, root: file.root.target, isNow: now.has(file.named) }],
    )
    // Outer ones first: what is mounted later on an outer path would cover the inner one.
    .sort((a, b) => a.target.length - b.target.length)
  const { roots } = request.workspace
  const planned = new Set(
    request.writableFiles.flatMap((path) => writableFileSteps(path, roots)).map(({ target }) => target),
  )
  // Such a root cannot be made read-only as a whole: its mounts are.
  const parted = new Set(
    request.files === 'rw'
      ? []
      : places.flatMap(({ kind, isNow, root }) => (kind === 'folder' && isNow ? [root] : [])),
  )
  const whole = new Set(places.flatMap(({ target, root, isNow }) => (target === root && isNow ? [root] : [])))
  const view = plan.view.flatMap((step): readonly ViewStep[] => {
    if (step.kind === 'writable' && planned.has(step.target)) return []
    const isParted = step.kind === 'root' && parted.has(step.source) && !whole.has(step.source)
    return [isParted ? { ...step, access: 'ro' } : step]
  })
  const seal = view.findIndex((step) => step.kind === 'sealed' && step.target === '/')
  const steps = places.flatMap((place) => stepsOf(place, request))
  const files = places.flatMap(({ kind, target }) => (kind === 'file' ? [target] : []))
  return {
    ...plan,
    places,
    request: { ...request, writableFiles: places.map(({ target }) => target) },
    roots: plan.roots.map((root) => ({
      ...root,
      touched: files.filter((path) => rootAround(path, roots)?.target === root.target),
    })),
    view: seal === -1 ? view : [...view.slice(0, seal), ...steps, ...view.slice(seal)],
  }
}

/** A file that is there only so that it can be written, and the folder it is in. */
type MadeFile = { readonly path: string; readonly folder: string }

const isEmptyFile = (stats: Stats | null | undefined): boolean => stats?.isFile() === true && stats.size === 0

/**
 * Notes those of a complete plan that do not exist yet, or were left as we made them. In an overlay the holder makes
 * them; in a copy of the user's files we do, since a mount needs something to stand on.
 */
export async function makeAbsentFiles({ request }: SandboxPlan): Promise<void> {
  const { workspace, writableFiles } = request
  if (writableFiles.length === 0) return
  const former = await readPlaceholders(workspace)
  const isNamed = (list: readonly Placeholder[], { root, path }: Placeholder) =>
    list.some((each) => each.root === root && each.path === path)
  const named: Placeholder[] = []
  const absent: Placeholder[] = []
  const toMake: string[] = []
  for (const writable of writableFiles) {
    const root = rootAround(writable, workspace.roots)
    if (root === undefined) continue
    const inside = writable.slice(root.target.length)
    const file = { root: root.path, path: inside.slice(1) }
    named.push(file)
    const [place, ...below] = layersFrom(root).map((layer) => layer + inside)
    const stats = place === undefined ? null : await statOf(place)
    if (place === undefined || (await Promise.all(below.map(statOf))).some((each) => each !== null)) continue
    if (stats !== null && !(isNamed(former, file) && isEmptyFile(stats))) continue
    absent.push(file)
    if (stats === null && root.mount.kind === 'bind') toMake.push(place)
  }
  const noted = [...former.filter((file) => !isNamed(named, file)), ...absent]
  // Before there is one of them: a crash in between leaves a note of nothing, never a file that passes for the agent's.
  if (former.length + noted.length > 0) await notePlaceholders(workspace, noted)
  for (const place of toMake) await writeFile(place, '', { flag: 'wx' })
}

const layersFrom = ({ mount }: WorkspaceRoot): readonly string[] =>
  mount.kind === 'bind' ? [mount.source] : [mount.upper, mount.lower]

/** They are taken away again if nobody wrote them, once nobody can any more. */
export async function removePlaceholders(workspace: Workspace): Promise<void> {
  const made = (await readPlaceholders(workspace)).map(
    async ({ root, path }): Promise<readonly MadeFile[]> => {
      const found = workspace.roots.find((each) => each.path === root && each.role === 'project')
      const [layer] = found === undefined ? [] : layersFrom(found)
      if (layer === undefined || layer === root) return []
      const real = await realpath(layer).catch(() => null)
      return real === null ? [] : [{ path: join(layer, path), folder: dirname(join(real, path)) }]
    },
  )
  await removeUnwritten((await Promise.all(made)).flat())
}

export async function removeUnwritten(files: readonly MadeFile[]): Promise<void> {
  for (const { path, folder } of files) {
    // The agent may have put a link in its folder's place, to have a file of the host's removed.
    if ((await realpath(dirname(path)).catch(() => null)) !== folder) continue
    if (isEmptyFile(await statOf(path).catch(() => null))) await rm(path, { force: true })
  }
}
