import { realpath } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { projectConfigName, userConfigName, type EffectiveConfig } from '../../../shared/config.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import type { Contract, HeldProject } from '../../base/contract.ts'
import { configInReach, configLinkedBelow } from '../../base/obeyed.ts'
import { foldersUpFrom, isThere, upToTop } from './folders.ts'
import { linkedFolders } from './linkedFolders.ts'
import { mergeConfig, type ProjectLayer } from './merge.ts'
import { parseConfig, readConfigText } from './read.ts'
import { narrowTrust } from './narrowedTrust.ts'
import { readTrust, trustIn } from './trust.ts'
import { repositoryOf, twinOf } from './twin.ts'

export type ConfigPlaces = {
  readonly userConfigDir: string
  readonly roots: readonly string[]
  /** What holds besides, for a dispatch that could have changed the files itself. */
  readonly held?: readonly HeldProject[] | undefined
  /** Roots of a dispatch's ancestors: what their projects say narrows it too, and gives it nothing. */
  readonly around?: readonly string[] | undefined
  /** Roots whose real files an agent writes meanwhile. */
  readonly direct?: readonly string[]
}

/** The roots of a contract whose real files its agent writes. */
export const directRoots = ({ strategy, roots = [] }: Partial<Contract>): readonly string[] =>
  strategy === 'none' ? roots : []

/** A link that was made after the checks: what the agent may have written there is nobody's word. */
async function refuseInReach({ userConfigDir, direct = [] }: ConfigPlaces): Promise<void> {
  for (const root of direct) {
    const held = (await configInReach(root, userConfigDir)) ?? (await configLinkedBelow(root, userConfigDir))
    if (held === null) continue
    throw new OrangeryError('config.in_reach', `${held}: whoever writes ${root} could have changed it`, {
      kind: 'refused',
      hint: "Keep Orangery's own config out of that folder, or end the dispatch.",
    })
  }
}

/**
 * The folder whose `.orangery.json` holds for a root: the root itself, or, inside a git repository, the nearest
 * folder above it up to the repository's top. Never above that: what lies there is nobody's project.
 */
export async function projectFolderOf(root: string): Promise<string> {
  const start = await realpath(root).catch(() => root)
  // All at once: an agent waits for this.
  const [within, isProject] = await Promise.all([
    upToTop(start),
    Promise.all(foldersUpFrom(start).map((folder) => isThere(join(folder, projectConfigName)))),
  ])
  return within.find((_, index) => isProject[index]) ?? start
}

/** The file that lies in a folder, and what the user has trusted of it. */
async function readFolder(userConfigDir: string, folder: string) {
  const file = join(folder, projectConfigName)
  const [source, trust, repository] = await Promise.all([
    readConfigText(file),
    readTrust(userConfigDir),
    repositoryOf(folder),
  ])
  return {
    home: folder,
    file,
    layer: source === null ? null : parseConfig(source),
    ...trustIn(trust, folder, repository, source),
  }
}

/**
 * The config that holds for a root. In a linked worktree that of the main one holds where it has none of its own,
 * and what the user saved there counts in any case: it is one project.
 */
export async function readProjectLayer(userConfigDir: string, root: string): Promise<ProjectLayer> {
  const project = await projectFolderOf(root)
  const [own, main] = await Promise.all([
    readFolder(userConfigDir, project),
    readMain(userConfigDir, root, project),
  ])
  if (main === null) return { project, root, ...own }
  const { at, ...there } = main
  if (own.layer === null) return { project: at, root, ...there }
  return { project, root, ...own, shared: { ...there, project: at } }
}

async function readMain(userConfigDir: string, root: string, project: string) {
  const twin = await twinOf(root)
  if (twin === null) return null
  const folder = await projectFolderOf(twin.folder)
  if (folder === project) return null
  // A mistake in the other checkout is told there, and where its file is the one that holds.
  const found = await readFolder(userConfigDir, folder)
  return found.layer === null ? null : { ...found, at: join(twin.top, relative(twin.main, folder)) }
}

/** The folder whose file is the project's own, in a linked worktree that of the main one; and the same folder here. */
export async function projectHomeOf(root: string): Promise<{ readonly home: string; readonly here: string }> {
  const twin = await twinOf(root)
  const home = await projectFolderOf(twin?.folder ?? root)
  return { home, here: twin === null ? home : join(twin.top, relative(twin.main, home)) }
}

/** Reads the user's and the projects' files and works out what holds. Nothing is cached: a reload is a second call. */
export async function loadConfig(places: ConfigPlaces, now: Date = new Date()): Promise<EffectiveConfig> {
  await refuseInReach(places)
  // Side by side: an agent waits for this. The user's own mistakes are told first.
  const reading = readAll(places)
  const around = readAll({ ...places, roots: places.around ?? [] })
  const narrowing = narrowTrust(places.userConfigDir, [...places.roots, ...(places.around ?? [])])
  const userText = await readConfigText(join(places.userConfigDir, userConfigName), { follow: true })
  const user = userText === null ? null : parseConfig(userText)
  const linking = user === null ? [] : linkedFolders(user)
  const isMoved = await narrowing
  const projects = new Map<string, ProjectLayer>()
  for (const layer of isMoved ? readAll(places) : reading) {
    const read = await layer
    if (!projects.has(read.project)) projects.set(read.project, read)
  }
  const layers = [...projects.values()]
  const isThereStill = ({ file, sha256 }: HeldProject) =>
    layers.some((known) => known.file === file && known.layer?.sha256 === sha256)
  const gone = (places.held ?? []).filter((held) => !isThereStill(held))
  const isMine = ({ file }: ProjectLayer) => layers.some((known) => known.file === file)
  // A repository below a parent's root is a project by itself, and would leave what holds the parent behind.
  const others = (await Promise.all(around)).filter((layer) => layer.layer !== null && !isMine(layer))
  const config = mergeConfig(user, layers, now, [...gone.map(heldLayer), ...others])
  const linked = await linking
  return linked.length === 0 ? config : { ...config, warnings: [...config.warnings, ...linked] }
}

function readAll({ userConfigDir, roots }: ConfigPlaces): Promise<ProjectLayer>[] {
  const reading = roots.map((root) => readProjectLayer(userConfigDir, root))
  for (const layer of reading) layer.catch(() => {})
  return reading
}

const heldLayer = ({ project, file, text, sha256, trust }: HeldProject): ProjectLayer => ({
  project,
  home: project,
  root: project,
  file,
  layer: parseConfig({ file, text, sha256 }),
  trust,
  ownApprovals: [],
})

/** The projects' files as they are, for a dispatch that is to be held to them. */
export async function heldProjects({ userConfigDir, roots }: ConfigPlaces): Promise<readonly HeldProject[]> {
  const layers = await Promise.all(roots.map((root) => readProjectLayer(userConfigDir, root)))
  const files = new Map(layers.map((layer) => [layer.file, layer]))
  return [...files.values()].flatMap(({ project, file, layer, trust }) =>
    layer === null ? [] : [{ project, file, text: layer.text, sha256: layer.sha256, trust }],
  )
}
