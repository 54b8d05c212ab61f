import { lstat, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isDispatchId, type DispatchId } from '../../../shared/ids.ts'
import { writeFileAtomically } from '../../base/files.ts'
import { cutFolders, frozenRecord, frozenText, packedRefs, readFrozenRefs } from '../../base/frozenRefs.ts'
import { git } from '../../base/git.ts'
import { assertOwnGit } from '../../base/ownGit.ts'
import { run } from '../../base/process.ts'
import type { Workspace } from '../../base/workspace.ts'
import { folderInside } from '../find/pathSafety.ts'

/**
 * Gives the agent in a worktree sandbox the refs of the repository as they are now, to have for as long as it runs.
 * An overlay would show it each step of a landing, and after a `git pack-refs` of the user's whatever the kernel still
 * remembers. Called with the workspace claimed and nothing mounted. Says why where it cannot be done.
 */
export async function freezeRefs({ id, strategy, roots }: Workspace): Promise<string[]> {
  const root = roots.find(({ role, name }) => role === 'git' && name === '.git')
  if (strategy !== 'worktree' || root?.mount.kind !== 'overlay' || root.access === 'hidden') return []
  const { lower, upper } = root.mount
  if (await isThere(join(lower, 'reftable'))) return live('they are kept as reftable')
  const known = await readFrozenRefs(root.mount)
  const isFresh = !(await anyThere(upper, [...cutFolders, packedRefs]))
  if (known === null && !isFresh) return live('this sandbox was made without a copy of them')
  const now = await refFiles(lower, id)
  if (isFresh) {
    await writeFileAtomically(frozenRecord(upper), frozenText(now), 0o600, 'nothing')
    for (const folder of cutFolders) await mkdir(join(upper, folder), { mode: 0o755 })
    for (const [path, text] of now) {
      await mkdir(dirname(join(upper, path)), { recursive: true, mode: 0o755 })
      await writeFile(join(upper, path), text, { encoding: 'latin1', flag: 'wx', mode: 0o644 })
    }
    return cutOff(upper)
  }
  // What the agent packed or deleted itself stays: then it keeps the others' refs as it had them.
  if (known === null || !(await known.isUntouched(packedRefs))) return []
  const own = await refNamesIn(upper)
  if (own === null) return []
  const packed = packedText(linesOf(now.get(packedRefs) ?? '').filter(({ ref }) => fits(ref, own)))
  const files = new Map([...known.files, [packedRefs, packed]])
  await writeFileAtomically(frozenRecord(upper), frozenText(files), 0o600, 'nothing')
  await writeFileAtomically(join(upper, packedRefs), Buffer.from(packed, 'latin1'), 0o644, 'nothing')
  return cutOff(upper)
}

/** Reflogs tell of a landing as refs do. */
const stashLog = 'logs/refs/stash'
const largestLog = 4 * 1024 * 1024

const live = (why: string): string[] => [
  `the agent sees the refs of the repository as they are at each moment, landings of others included: ${why}`,
]

/** Nothing of the folders below shows through any more. */
async function cutOff(upper: string): Promise<string[]> {
  const folders = cutFolders.map((folder) => join(upper, folder))
  const marked = await run('setfattr', [
    '-h',
    '-n',
    'user.overlay.opaque',
    '-v',
    'y',
    '--',
    ...folders,
  ]).catch(() => null)
  return marked?.code === 0 ? [] : live('its layer takes no mark (setfattr)')
}

/** The refs as files of a git folder, all packed but those that git packs never. */
async function refFiles(commonDir: string, id: DispatchId): Promise<Map<string, string>> {
  await assertOwnGit(commonDir)
  const listed = await git(['for-each-ref', '--format=%(objectname) %(refname) %(symref)'], {
    gitDir: commonDir,
  })
  const files = new Map<string, string>()
  const packed: Line[] = []
  for (const line of listed.toString('latin1').split('\n')) {
    const [oid = '', ref = '', leadsTo = ''] = line.split(' ')
    if (!ref.startsWith('refs/') || isOfOthers(ref, id)) continue
    if (leadsTo !== '') files.set(ref, `ref: ${leadsTo}\n`)
    else if (/^refs\/(bisect|worktree|rewritten)\//.test(ref)) files.set(ref, `${oid}\n`)
    else packed.push({ oid, ref })
  }
  const log = await readStashLog(commonDir)
  if (log !== '') files.set(stashLog, log)
  return files.set(packedRefs, packedText(packed))
}

/** Not by a link: that there is none was asserted. */
async function readStashLog(commonDir: string): Promise<string> {
  const path = join(commonDir, stashLog)
  const facts = await lstat(path).catch(() => null)
  if (facts?.isFile() !== true || facts.size > largestLog) return ''
  return readFile(path, 'latin1').catch(() => '')
}

// Ours come and go step by step with a landing; the branch it lands on moves at once.
function isOfOthers(ref: string, id: DispatchId): boolean {
  const sandbox = /^refs\/heads\/agency\/sandbox-(.+)$/.exec(ref)?.[1]
  return (
    ref.startsWith('refs/orangery/') || (sandbox !== undefined && sandbox !== id && isDispatchId(sandbox))
  )
}

type Line = { readonly oid: string; readonly ref: string }

function packedText(lines: readonly Line[]): string {
  const sorted = lines.toSorted((a, b) => (a.ref < b.ref ? -1 : 1))
  return ['# pack-refs with: sorted ', ...sorted.map(({ oid, ref }) => `${oid} ${ref}`), ''].join('\n')
}

const linesOf = (packed: string): Line[] =>
  packed.split('\n').flatMap((line) => {
    const [oid = '', ref = ''] = line.split(' ')
    return ref.startsWith('refs/') ? [{ oid, ref }] : []
  })

/** Git knows no ref that is a folder of another: what the agent made comes first. */
const fits = (ref: string, own: readonly string[]): boolean =>
  !own.some((name) => name.startsWith(`${ref}/`) || ref.startsWith(`${name}/`))

/** The refs in the agent's layer, never followed through a link; null where it cannot be looked into. */
async function refNamesIn(upper: string): Promise<string[] | null> {
  const folder = await folderInside(upper, 'refs')
  if (folder === null) return null
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => null)
  return (
    entries
      ?.filter((entry) => !entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name).slice(upper.length + 1)) ?? null
  )
}

const isThere = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  )
const anyThere = async (folder: string, names: readonly string[]): Promise<boolean> =>
  (await Promise.all(names.map((name) => isThere(join(folder, name))))).some(Boolean)
