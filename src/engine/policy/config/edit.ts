import { constants } from 'node:fs'
import { access, realpath, unlink } from 'node:fs/promises'
import { dirname, isAbsolute, join, relative } from 'node:path'
import { projectConfigName, userConfigName, type SavedApproval } from '../../../shared/config.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { ensurePrivateDir } from '../../base/files.ts'
import { approvalsKey, indexesOf, withoutApprovals } from './approvalText.ts'
import { withListItem } from './listEdit.ts'
import { parseConfig, readConfigText, sha256Of, type ConfigLayer } from './read.ts'
import { projectHomeOf, readProjectLayer } from './load.ts'
import { changeTrusts } from './trusting.ts'
import { readLayer, withoutRevoked } from './narrowedTrust.ts'
import {
  approvalDigest,
  lockConfigs,
  readTrust,
  writeTrust,
  type ProjectTrust,
  type TrustFile,
} from './trust.ts'
import { repositoryOf } from './twin.ts'
import { writeProjectConfig, writeUserConfig } from './write.ts'
import { noteWritten } from './written.ts'

/** What is written must read back as what was meant; otherwise nothing is written. */
function checked(file: string, text: string): ConfigLayer {
  return parseConfig({ file, text, sha256: '' })
}

export type SavedPlace = { readonly file: string; readonly ids: readonly string[] }
/** What stands in a file since we wrote it, and what stood there; null: there was none. `home`: whose trust moved with it. */
type Written = {
  readonly file: string
  readonly text: string
  readonly before: string | null
  readonly home: string | null
}

async function saveToUser(
  userConfigDir: string,
  approvals: readonly SavedApproval[],
  onWritten: (written: Written) => void,
): Promise<SavedPlace> {
  await ensurePrivateDir(userConfigDir)
  const file = join(userConfigDir, userConfigName)
  const source = await readConfigText(file, { follow: true })
  const before = source === null ? null : parseConfig(source)
  const { text, ids } = added(file, before, approvals)
  if (text !== before?.text) {
    await writeUserConfig(file, text)
    onWritten({ file, text, before: before?.text ?? null, home: null })
    await noteWritten(userConfigDir, file, text)
  }
  return { file, ids }
}

function added(file: string, before: ConfigLayer | null, approvals: readonly SavedApproval[]) {
  let layer = before
  for (const approval of approvals) {
    const digest = approvalDigest(approval)
    const known = layer?.values.sandboxApprovedEscalations ?? []
    if (known.some((other) => approvalDigest(other) === digest)) continue
    layer = checked(file, withListItem(layer?.text ?? '', approvalsKey, approval))
  }
  return { text: layer?.text ?? '', ids: approvals.map(approvalDigest) }
}

/** A project's file names folders from where it stands; a folder of another project is that one's to name. */
async function placedIn(project: string, approvals: readonly SavedApproval[]): Promise<SavedApproval[]> {
  const real = await realpath(project).catch(() => project)
  return approvals.flatMap((approval) => {
    if (approval.roots === undefined) return [approval]
    const roots = approval.roots
      .map((folder) => relative(real, folder))
      .filter((path) => path !== '..' && !path.startsWith('../') && !isAbsolute(path))
      .map((path) => (path === '' ? '.' : path))
    return roots.length === 0 ? [] : [{ ...approval, roots }]
  })
}

/**
 * What we trust after a change of ours is the text that we wrote, never what lies there by then: an agent on the real
 * files may have been quicker. (escape: trust-after-write)
 */
const asWritten = (text: string, before: ConfigLayer | null): Pick<ProjectTrust, 'sha256' | 'text'> => ({
  sha256: text === before?.text ? before.sha256 : sha256Of(text),
  text,
})

async function saveToProject(
  userConfigDir: string,
  root: string,
  approvals: readonly SavedApproval[],
  by: string,
  at: Date,
  onWritten: (written: Written) => void,
): Promise<SavedPlace> {
  // Saved in the project's own file also from a worktree of it, which may be gone tomorrow.
  const { home, here } = await projectHomeOf(root)
  const { file, layer, trust } = await readProjectLayer(userConfigDir, home)
  const { text, ids } = added(file, layer, await placedIn(here, approvals))
  const records = await readTrust(userConfigDir)
  const known = records.projects[home]
  // The approval the user just gave is trusted; what else an untrusted file says stays untrusted.
  onWritten({ file, text, before: layer?.text ?? null, home })
  if (text !== layer?.text) await writeProjectConfig(file, text)
  const decided = { at: at.toISOString(), by }
  const entry =
    trust === 'trusted'
      ? { ...known, ...asWritten(text, layer), ...decided }
      : { sha256: null, text: '', ...decided, ...known }
  const own = [...new Set([...(known?.approvals ?? []), ...ids])]
  const repository = await repositoryOf(home)
  await writeTrust(userConfigDir, {
    ...records,
    projects: { ...records.projects, [home]: { ...entry, approvals: own, repository } },
    ...(text === layer?.text ? {} : { written: { ...records.written, [file]: sha256Of(text) } }),
  })
  return { file, ids }
}

export type SaveApprovals = {
  readonly userConfigDir: string
  readonly scope: 'project' | 'user'
  readonly approvals: readonly SavedApproval[]
  readonly roots: readonly string[]
  readonly by: string
  readonly at: Date
  /** Whoever saves holds the files already, by `holdFiles`. */
  readonly isHeld?: boolean
}

const unwritable = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'ENOSPC', 'EDQUOT', 'lock.unusable'])

function unsaved(userConfigDir: string, error: unknown): unknown {
  const { code = '', path, message } = error as NodeJS.ErrnoException
  if (!unwritable.has(code)) return error
  const folder = path === undefined ? userConfigDir : dirname(path)
  return new OrangeryError(
    'config.unwritable',
    `${folder}: the approval cannot be saved (${path === undefined ? message : code})`,
    {
      kind: 'cannot_create',
      hint: 'Make the folder writable, or approve without --save, for this run only.',
      cause: error,
    },
  )
}

/**
 * For whoever is about to say yes and save it: nobody else changes these files meanwhile, and they can be written. Held
 * before the yes is on record, since who waits for one follows the record at once.
 */
export async function holdFiles({
  userConfigDir,
  scope,
  roots,
}: Pick<SaveApprovals, 'userConfigDir' | 'scope' | 'roots'>): Promise<AsyncDisposable> {
  await using held = new AsyncDisposableStack()
  try {
    held.use(await lockConfigs(userConfigDir))
    for (const root of scope === 'project' ? roots : []) {
      const { home } = await projectHomeOf(root)
      await access(home, constants.W_OK).catch((error: NodeJS.ErrnoException) => {
        error.path = join(home, projectConfigName)
        throw error
      })
    }
    return held.move()
  } catch (error) {
    throw unsaved(userConfigDir, error)
  }
}

type Saved = {
  readonly places: readonly SavedPlace[]
  /** As if nothing had been saved, for whom what was to follow did not come about. */
  readonly takeBack: () => Promise<void>
}

/** Writes approvals into the user's file, or into the file of each project the roots belong to: into all or into none. */
export async function saveApprovals(request: SaveApprovals): Promise<Saved> {
  const { userConfigDir, scope, approvals, roots, by, at } = request
  const all: Written[] = []
  const onWritten = (written: Written) => void all.push(written)
  try {
    await using _lock = request.isHeld === true ? null : await lockConfigs(userConfigDir)
    const trusted = await readTrust(userConfigDir)
    const places = new Map<string, SavedPlace>()
    const keep = (place: SavedPlace) => places.set(place.file, place)
    try {
      if (scope === 'user') keep(await saveToUser(userConfigDir, approvals, onWritten))
      else
        for (const root of roots) keep(await saveToProject(userConfigDir, root, approvals, by, at, onWritten))
    } catch (error) {
      await undo(userConfigDir, all, trusted)
      throw error
    }
    return {
      places: [...places.values()],
      async takeBack() {
        await using _again = await lockConfigs(userConfigDir)
        await undo(userConfigDir, all, trusted)
      },
    }
  } catch (error) {
    throw unsaved(userConfigDir, error)
  }
}

/** Trust goes first: without it nothing that stands in a project's file counts. */
async function undo(userConfigDir: string, all: readonly Written[], trusted: TrustFile): Promise<void> {
  const { projects, ...rest } = await readTrust(userConfigDir)
  const homes = new Set(all.flatMap(({ home }) => home ?? []))
  const others = Object.entries(projects).filter(([home]) => !homes.has(home))
  const former = Object.entries(trusted.projects).filter(([home]) => homes.has(home))
  if (homes.size > 0)
    await writeTrust(userConfigDir, { ...rest, projects: Object.fromEntries([...others, ...former]) })
  for (const written of all.toReversed()) await putBack(written).catch(() => {})
}

/** Unless somebody was there since. */
async function putBack({ file, text, before, home }: Written): Promise<void> {
  if (text === before || (await readConfigText(file, { follow: home === null }))?.text !== text) return
  if (before === null) await unlink(file)
  else if (home === null) await writeUserConfig(file, before)
  else await writeProjectConfig(file, before)
}

export type RevokedApproval = {
  readonly file: string
  readonly line: number
  readonly approval: SavedApproval
}

/** A person types the beginning of an id; what begins alike was perhaps made to. */
function wholeId(typed: string, layers: readonly ConfigLayer[], others: readonly string[]): string {
  const saved = layers.flatMap(({ values }) => values[approvalsKey] ?? []).map(approvalDigest)
  const known = [...saved, ...others]
  if (known.includes(typed)) return typed
  const matches = [...new Set(known)].filter((id) => typed !== '' && id.startsWith(typed))
  if (matches.length <= 1) return matches[0] ?? typed
  throw new OrangeryError('boundary.approval_ambiguous', `approval ${typed}: ${matches.length} begin so`, {
    kind: 'input',
    hint: `Name one in full: ${matches.slice(0, 4).join(', ')}.`,
  })
}

/**
 * Takes a saved approval out of every file that holds it. Gives back what was taken out. `others`: ids that are in no file,
 * and that a person may mean as well.
 */
export async function revokeApproval(
  userConfigDir: string,
  roots: readonly string[],
  typed: string,
  others: readonly string[] = [],
): Promise<readonly RevokedApproval[]> {
  await using _lock = await lockConfigs(userConfigDir)
  const userFile = join(userConfigDir, userConfigName)
  const source = await readConfigText(userFile, { follow: true })
  const files = await filesOf(userConfigDir, roots)
  const user = source === null ? null : parseConfig(source)
  const layers = files.flatMap(({ layer }) => layer ?? [])
  const id = wholeId(typed, user === null ? layers : [user, ...layers], others)
  const written =
    (write: (file: string, text: string) => Promise<void>) => async (file: string, text: string) => {
      await write(file, text)
      await noteWritten(userConfigDir, file, text)
    }
  const revoked = user === null ? [] : await removeFrom(user, id, written(writeUserConfig))
  for (const layer of layers) revoked.push(...(await removeFrom(layer, id, written(writeProjectConfig))))
  // Also where the same text was trusted in another worktree: what is revoked must not count there.
  for (const home of new Set(files.map(({ home }) => home)))
    await changeTrusts(userConfigDir, home, (known) => withoutRevoked(known, id))
  return revoked
}

/** Those that hold for the roots, and those of the same projects that were trusted in another worktree. */
async function filesOf(userConfigDir: string, roots: readonly string[]) {
  const near = await Promise.all(roots.map((root) => readProjectLayer(userConfigDir, root)))
  const records = await readTrust(userConfigDir)
  const found = near.flatMap((own) => [own, ...(own.shared ? [own.shared] : [])])
  const files = new Map(found.map(({ home, layer }) => [home, { home, layer }]))
  const repositories = new Set(await Promise.all([...files.keys()].map(repositoryOf)))
  repositories.delete(null)
  const others = Object.keys(records.projects).filter((folder) =>
    repositories.has(records.projects[folder]?.repository ?? null),
  )
  for (const folder of others.filter((other) => !files.has(other))) {
    // One that is gone, or spoilt, holds nothing up.
    const layer = await readLayer(folder).catch(() => null)
    files.set(folder, { home: folder, layer })
  }
  return [...files.values()]
}

async function removeFrom(
  layer: ConfigLayer,
  id: string,
  write: (file: string, text: string) => Promise<void>,
): Promise<RevokedApproval[]> {
  const list = layer.values.sandboxApprovedEscalations ?? []
  const indexes = indexesOf(layer, (own) => own === id)
  if (indexes.length === 0) return []
  const text = withoutApprovals(layer, (own) => own === id)
  checked(layer.file, text)
  await write(layer.file, text)
  return indexes.map((index) => ({
    file: layer.file,
    line: layer.lineOf([approvalsKey, index]),
    approval: list[index] as SavedApproval,
  }))
}
