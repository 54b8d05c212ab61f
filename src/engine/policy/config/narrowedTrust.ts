import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { createScanner } from 'jsonc-parser'
import { projectConfigName } from '../../../shared/config.ts'
import { approvalsKey, withoutApprovals } from './approvalText.ts'
import { upToTop } from './folders.ts'
import { withoutEmptyList } from './listEdit.ts'
import { parseConfig, readConfigText, sha256Of, type ConfigLayer } from './read.ts'
import {
  approvalDigest,
  lockConfigs,
  readTrust,
  trustsOf,
  writeTrust,
  type ProjectTrust,
  type TrustFile,
} from './trust.ts'
import { isLinkedWorktree, repositoryOf, twinOf } from './twin.ts'

/**
 * What somebody has taken out of a trusted file, or away with all of it, does not come back with the text that was
 * trusted once: trust moves on to what is left, and an approval that is gone has to be given again. Says whether
 * anything moved. (escape: restored-approval)
 */
export async function narrowTrust(userConfigDir: string, roots: readonly string[]): Promise<boolean> {
  try {
    if ((await narrowedRecords(userConfigDir, roots)) === null) return false
    await using _lock = await lockConfigs(userConfigDir)
    const next = await narrowedRecords(userConfigDir, roots)
    if (next !== null) await writeTrust(userConfigDir, next)
    return next !== null
  } catch {
    // Where nothing can be written down, what was trusted stays as it was.
    return false
  }
}

async function narrowedRecords(userConfigDir: string, roots: readonly string[]): Promise<TrustFile | null> {
  const records = await readTrust(userConfigDir)
  if (Object.keys(records.projects).length === 0) return null
  const folders = new Set((await Promise.all(roots.map(foldersOf))).flat())
  const moved = await Promise.all(
    [...folders].map(async (folder) => {
      const known = records.projects[folder] ?? (await adopted(records, folder))
      const next = known === undefined ? undefined : (narrowed(known, await readLayer(folder)) ?? known)
      return next === undefined || next === records.projects[folder] ? [] : [[folder, next] as const]
    }),
  )
  if (moved.flat().length === 0) return null
  return { ...records, projects: { ...records.projects, ...Object.fromEntries(moved.flat()) } }
}

/** Every folder whose file may hold for a root, here and in the main worktree: also where it is gone by now. */
export async function foldersOf(root: string): Promise<string[]> {
  const real = await realpath(root).catch(() => root)
  const [own, twin] = await Promise.all([upToTop(real), twinOf(real)])
  return [...own, ...(twin === null ? [] : await upToTop(twin.folder))]
}

/** A main worktree's file that is trusted by what was trusted in another is so by a record of its own from now on. */
async function adopted(records: TrustFile, folder: string): Promise<ProjectTrust | undefined> {
  const repository = await repositoryOf(folder)
  const trusts = trustsOf(records, folder, repository)
  if (trusts.length === 0 || (await isLinkedWorktree(folder))) return undefined
  const sha256 = (await readLayer(folder))?.sha256
  const by = trusts.find((known) => known.sha256 === sha256)
  return by === undefined ? undefined : { ...by, approvals: [], withdrawn: [] }
}

/** Null where there is none; one that cannot be read tells nothing, and widens nothing. */
export async function readLayer(folder: string): Promise<ConfigLayer | null> {
  const source = await readConfigText(join(folder, projectConfigName))
  return source === null ? null : parseConfig(source)
}

const saidBy = (layer: ConfigLayer | null): Set<string> =>
  new Set((layer?.values.sandboxApprovedEscalations ?? []).map(approvalDigest))

function narrowed(known: ProjectTrust, layer: ConfigLayer | null): ProjectTrust | null {
  const said = saidBy(layer)
  const approvals = known.approvals.filter((id) => said.has(id))
  const left = leftOf(known, layer)
  if (left !== null) {
    const withdrawn = [...new Set([...(known.withdrawn ?? []), known.sha256 ?? ''])].slice(-mostWithdrawn)
    return { ...known, ...left, approvals, withdrawn }
  }
  return approvals.length === known.approvals.length ? null : { ...known, approvals }
}
const mostWithdrawn = 100

/** The text that is trusted from now on; null: as before. */
function leftOf(
  known: ProjectTrust,
  layer: ConfigLayer | null,
): Pick<ProjectTrust, 'sha256' | 'text'> | null {
  if (known.sha256 === null || known.sha256 === layer?.sha256) return null
  const before = parsed(known.text)
  if (before === null) return null
  const said = saidBy(layer)
  const text = withoutApprovals(before, (id) => !said.has(id))
  if (text === known.text) return null
  // Who also changed a comment or a note is asked: that is not the text that was trusted.
  if (layer !== null && isSameText(text, withoutEmptyList(layer.text, approvalsKey)))
    return { sha256: layer.sha256, text: layer.text }
  return { sha256: sha256Of(text), text }
}

/** But for white space and commas, which whoever takes out an item takes along as he likes. */
function isSameText(a: string, b: string): boolean {
  const [left, right] = [tokensOf(a), tokensOf(b)]
  return left.length === right.length && left.every((token, index) => token === right[index])
}

function tokensOf(text: string): string[] {
  const scanner = createScanner(text)
  const tokens: string[] = []
  for (scanner.scan(); scanner.getTokenLength() > 0; scanner.scan()) {
    const start = scanner.getTokenOffset()
    const token = text.slice(start, start + scanner.getTokenLength()).trim()
    if (token !== '' && token !== ',') tokens.push(token)
  }
  return tokens
}

/** What is on record of a trusted text without an approval that was revoked. */
export function withoutRevoked(known: ProjectTrust, id: string): ProjectTrust {
  const approvals = known.approvals.filter((own) => own !== id)
  const before = known.sha256 === null ? null : parsed(known.text)
  const text = before === null ? known.text : withoutApprovals(before, (own) => own === id)
  return { ...known, approvals, ...(text === known.text ? {} : { sha256: sha256Of(text), text }) }
}

function parsed(text: string): ConfigLayer | null {
  try {
    return parseConfig({ file: '', text, sha256: '' })
  } catch {
    return null
  }
}
