import { lstat, realpath } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { TrustQuestion, TrustState } from '../../../shared/config.ts'
import { readConfigText, sha256Of, type ConfigText } from './read.ts'
import { readTrust } from './trust.ts'

export const includeName = '.worktreeinclude'

/** A repository's list of ignored files to copy, which are its user's secrets: trusted by its text, as the config is. */
export type IncludeList = { readonly folder: string; readonly source: ConfigText }

/** Null where there is none that would be read. It lies at the top of a checkout. */
export async function readIncludeList(root: string): Promise<IncludeList | null> {
  for (let folder = await realpath(root).catch(() => root); ; folder = dirname(folder)) {
    if ((await lstat(join(folder, '.git')).catch(() => null)) !== null) {
      const source = await readConfigText(join(folder, includeName)).catch(() => null)
      return source === null ? null : { folder, source }
    }
    if (dirname(folder) === folder) return null
  }
}

/** Whether the list in a checkout is, to the byte, one that the user has trusted there or in the repository. */
export async function isIncludeTrusted(
  userConfigDir: string,
  repository: string,
  checkout: string = repository,
): Promise<boolean> {
  const [list, own, trust] = await Promise.all([
    readIncludeList(checkout),
    readIncludeList(repository),
    readTrust(userConfigDir),
  ])
  if (list === null) return false
  const folders = [list.folder, ...(own === null ? [] : [own.folder])]
  return folders.some((folder) => trust.includes[folder]?.sha256 === list.source.sha256)
}

/** One question about both texts, and one hash that stands for both. */
export function withInclude(
  config: TrustQuestion,
  list: IncludeList,
  known: { readonly text: string } | undefined,
  state: TrustState,
): TrustQuestion {
  const { sha256, text, file } = list.source
  if (config.sha256 === null) {
    return { ...config, file, trust: state, before: known?.text ?? '', now: text, sha256 }
  }
  return {
    ...config,
    trust: config.trust === state ? state : 'changed',
    before: known === undefined ? config.before : joined(config.before, known.text),
    now: joined(config.now, text),
    sha256: sha256Of(`${config.sha256} ${sha256}`),
  }
}

const joined = (config: string, list: string): string =>
  `${config.replace(/\n?$/, '\n')}\n--- ${includeName} ---\n${list}`
