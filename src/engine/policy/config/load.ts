import { lstat, realpath } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { projectConfigName, userConfigName, type EffectiveConfig } from '../../../shared/config.ts'
import { mergeConfig, type ProjectLayer } from './merge.ts'
import { parseConfig, readConfigText } from './read.ts'
import { readTrust, trustStateOf } from './trust.ts'

export type ConfigPlaces = { readonly userConfigDir: string; readonly roots: readonly string[] }

const isThere = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  )

/**
 * The folder whose `.orangery.json` holds for a root: the root itself, or, inside a git repository, the nearest
 * folder above it up to the repository's top. Never above that: what lies there is nobody's project.
 */
export async function projectFolderOf(root: string): Promise<string> {
  const start = await realpath(root).catch(() => root)
  let found: string | null = null
  for (let folder = start; ; folder = dirname(folder)) {
    if (found === null && (await isThere(join(folder, projectConfigName)))) found = folder
    if (found === start) return start
    if (await isThere(join(folder, '.git'))) return found ?? start
    if (dirname(folder) === folder) return start
  }
}

export async function readProjectLayer(userConfigDir: string, root: string): Promise<ProjectLayer> {
  const project = await projectFolderOf(root)
  const file = join(project, projectConfigName)
  const [source, trust] = await Promise.all([readConfigText(file), readTrust(userConfigDir)])
  const known = trust.projects[project]
  return {
    project,
    root,
    file,
    layer: source === null ? null : parseConfig(source),
    trust: trustStateOf(source, known),
    ownApprovals: known?.approvals ?? [],
  }
}

/** Reads the user's and the projects' files and works out what holds. Nothing is cached: a reload is a second call. */
export async function loadConfig(places: ConfigPlaces, now: Date = new Date()): Promise<EffectiveConfig> {
  // Side by side: an agent waits for this. The user's own mistakes are told first.
  const reading = places.roots.map((root) => readProjectLayer(places.userConfigDir, root))
  for (const layer of reading) layer.catch(() => {})
  const userText = await readConfigText(join(places.userConfigDir, userConfigName), { follow: true })
  const user = userText === null ? null : parseConfig(userText)
  const projects = new Map<string, ProjectLayer>()
  for (const layer of reading) {
    const read = await layer
    if (!projects.has(read.project)) projects.set(read.project, read)
  }
  return mergeConfig(user, [...projects.values()], now)
}
