import { join } from 'node:path'
import { projectConfigName, type TrustQuestion } from '../../../shared/config.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { isThere } from './folders.ts'
import { readIncludeList, withInclude } from './include.ts'
import { projectFolderOf, projectHomeOf, readProjectLayer } from './load.ts'
import { lockConfigs, readTrust, trustsOf, trustStateOf, writeTrust, type ProjectTrust } from './trust.ts'
import { repositoryOf } from './twin.ts'

export async function trustQuestion(userConfigDir: string, root: string): Promise<TrustQuestion> {
  return (await readTrusted(userConfigDir, root)).question
}

/** What there is to trust at a root, read once. */
async function readTrusted(userConfigDir: string, root: string) {
  const { project, home, file, layer, trust } = await readProjectLayer(userConfigDir, root)
  const [records, list, repository] = await Promise.all([
    readTrust(userConfigDir),
    readIncludeList(root),
    repositoryOf(home),
  ])
  const config: TrustQuestion = {
    project,
    file,
    trust,
    before: trustsOf(records, home, repository)[0]?.text ?? '',
    now: layer?.text ?? '',
    sha256: layer?.sha256 ?? null,
  }
  const known = list === null ? undefined : records.includes[list.folder]
  const question =
    list === null
      ? config
      : withInclude(config, list, known, trustStateOf(list.source, known === undefined ? [] : [known]))
  return { question, home, layer, list, records, repository }
}

/** Trusts exactly the text that was shown; a file that has moved on since is not trusted. */
export async function trustProject(
  userConfigDir: string,
  root: string,
  shown: { readonly sha256: string; readonly by: string; readonly at: Date },
): Promise<void> {
  await using _lock = await lockConfigs(userConfigDir)
  const { question, home, layer, list, records, repository } = await readTrusted(userConfigDir, root)
  if (question.sha256 !== shown.sha256) {
    throw new OrangeryError('config.moved', `${question.file}: it has changed since it was shown`, {
      kind: 'busy',
      hint: 'Look at it again, then trust it.',
    })
  }
  const decided = { at: shown.at.toISOString(), by: shown.by }
  const known = { approvals: [], ...records.projects[home] }
  const { projects, includes } = records
  await writeTrust(userConfigDir, {
    ...records,
    projects:
      layer === null
        ? projects
        : {
            ...projects,
            [home]: { ...known, sha256: layer.sha256, text: layer.text, ...decided, repository },
          },
    includes:
      list === null
        ? includes
        : {
            ...includes,
            [list.folder]: { sha256: list.source.sha256, text: list.source.text, ...decided },
          },
  })
}

/** Where the file lies that holds for a root, whatever stands in it. */
async function trustedHome(root: string): Promise<string> {
  const folder = await projectFolderOf(root)
  return (await isThere(join(folder, projectConfigName))) ? folder : (await projectHomeOf(root)).home
}

/** Takes trust back, also from the approvals that were saved from here, and also where the file cannot be read now. */
export async function distrustProject(userConfigDir: string, root: string): Promise<boolean> {
  await using _lock = await lockConfigs(userConfigDir)
  const [home, list] = await Promise.all([trustedHome(root), readIncludeList(root)])
  const isKnown = await changeTrusts(userConfigDir, home, () => null)
  const records = await readTrust(userConfigDir)
  const { [list?.folder ?? home]: listed, ...includes } = records.includes
  if (listed === undefined) return isKnown
  await writeTrust(userConfigDir, { ...records, includes })
  return true
}

/** What there is to trust once trust is gone; of a file that cannot be understood there is nothing to show. */
export function untrustedQuestion(userConfigDir: string, root: string): Promise<TrustQuestion> {
  return trustQuestion(userConfigDir, root).catch(async () => {
    const project = await trustedHome(root)
    const file = join(project, projectConfigName)
    return { project, file, trust: 'untrusted' as const, before: '', now: '', sha256: null }
  })
}

/** Of a project, in each of its worktrees; null takes it away. Says whether there was any. */
export async function changeTrusts(
  userConfigDir: string,
  home: string,
  change: (known: ProjectTrust, folder: string) => ProjectTrust | null,
): Promise<boolean> {
  const [records, repository] = await Promise.all([readTrust(userConfigDir), repositoryOf(home)])
  const concerned = new Set(trustsOf(records, home, repository))
  if (concerned.size === 0) return false
  const projects = Object.entries(records.projects).flatMap(([folder, known]) => {
    const changed = concerned.has(known) ? change(known, folder) : known
    return changed === null ? [] : [[folder, changed] as const]
  })
  await writeTrust(userConfigDir, { ...records, projects: Object.fromEntries(projects) })
  return true
}
