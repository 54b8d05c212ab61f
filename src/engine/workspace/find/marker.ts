import { constants } from 'node:fs'
import { lstat, mkdir, open, readFile, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import { writeFileAtomically } from '../../base/files.ts'
import { integrationMarker, markers, sandboxMarker } from '../../base/markers.ts'
import type { Repository } from '../git/repository.ts'

const folder = '.agency'

const texts: Readonly<Record<string, string>> = {
  [integrationMarker]: '# This directory is an integration worktree.\n# Agents never write here.\n',
  [sandboxMarker]: '# This directory is a sandbox worktree.\n# Runners may execute here.\n',
}

export async function hasMarker(tree: string, marker: string): Promise<boolean> {
  const info = await lstat(join(tree, marker)).catch(() => null)
  return info?.isFile() === true
}

/** The nearest folder at or above `path` that carries an integration marker, or null. */
export async function integrationTreeAbove(path: string): Promise<string | null> {
  for (let at = path; ; at = dirname(at)) {
    if (await hasMarker(at, integrationMarker)) return at
    if (at === dirname(at)) return null
  }
}

/** How a person puts a marker back that was lost; we never do. */
export const putBack = (tree: string, marker: string): string =>
  `mkdir -p ${join(tree, folder)} && touch ${join(tree, marker)}`

export async function writeMarker(tree: string, marker: string): Promise<void> {
  const dir = join(tree, folder)
  await mkdir(dir).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  // A commit can hold `.agency` as a symlink and so lead our write out of the tree.
  if (!(await lstat(dir)).isDirectory()) {
    throw new OrangeryError('workspace.marker_blocked', `${dir}: not a folder, so no marker can be written`, {
      kind: 'cannot_create',
      hint: 'The repository tracks something else under this name; remove it there.',
    })
  }
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
  const handle = await open(join(tree, marker), flags, 0o644)
  try {
    await handle.writeFile(texts[marker] ?? '')
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/**
 * Hides the markers from git in every checkout of the repository: lines in `info/exclude`, which belongs to
 * this clone alone, never a file in the tree. What the user has there stays.
 */
export async function hideMarkers(commonDir: string): Promise<void> {
  const folder = join(commonDir, 'info')
  const path = join(folder, 'exclude')
  // Names may hold any byte: a text of a character for each.
  const text = (await isPlainFile(path)) ? await readFile(path, 'latin1') : ''
  const lines = text.split('\n')
  // The last line that matches counts: one that takes something back may have come after ours.
  const present = new Set(lines.slice(lines.findLastIndex((line) => line.startsWith('!')) + 1))
  const missing = markers.map((marker) => `/${marker}`).filter((line) => !present.has(line))
  if (missing.length === 0) return
  await mkdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  const [above, info] = await Promise.all([lstat(folder), lstat(path).catch(() => null)])
  // Who made the repository may have put links there, and our lines would go into any
  // file of the user's. (escape: linked-repository)
  if (!above.isDirectory() || info?.isFile() === false) throw excludeElsewhere(path, missing)
  const start = text === '' || text.endsWith('\n') ? text : `${text}\n`
  const mode = info === null ? 0o644 : info.mode & 0o777
  await writeFileAtomically(path, Buffer.from(`${start}${missing.join('\n')}\n`, 'latin1'), mode)
}

/** Also behind links: git reads it so. */
const isPlainFile = (path: string): Promise<boolean> =>
  stat(path).then(
    (info) => info.isFile(),
    () => false,
  )

const excludeElsewhere = (path: string, lines: readonly string[]): OrangeryError =>
  new OrangeryError(
    'workspace.linked_exclude',
    `${path}: it is no file of the repository itself, so Orangery does not write to it`,
    {
      kind: 'refused',
      hint: `Put a real file there, or add these lines to what it leads to yourself: ${lines.join(' ')}`,
    },
  )

/**
 * Asks git itself whether it sees a marker that was just written. An ignore file that the repository tracks has
 * the last word over `info/exclude`, and nothing else hides a file from git: such a tree cannot be made.
 */
export async function assertHidden(repository: Repository, tree: string, marker: string): Promise<void> {
  const seen = await repository.git(
    ['status', '--porcelain', '-uall', '--ignore-submodules=all', '--', marker],
    { cwd: tree },
  )
  if (seen === '') return
  const because = await showing(repository, tree, marker)
  throw new OrangeryError('workspace.marker_shown', `${marker}: git would show it${because}`, {
    kind: 'input',
    hint: `${hideAgain(marker)} The overlay strategy needs no marker.`,
  })
}

/** The same of a tree that stands already, whose ignore file is its user's own to change: told, never changed. */
export async function shownNotes(repository: Repository, tree: string, marker: string): Promise<string[]> {
  const asked = await repository.try(['check-ignore', '-q', '--no-index', '--', marker], { cwd: tree })
  if (asked.code !== 1 || !(await hasMarker(tree, marker))) return []
  const because = await showing(repository, tree, marker)
  return [`git shows ${join(tree, marker)}${because}. ${hideAgain(marker)}`]
}

const hideAgain = (marker: string): string => `Add the line "${marker}" after it, or narrow it.`

/** Which line of which ignore file does it. */
async function showing(repository: Repository, tree: string, marker: string): Promise<string> {
  const told = await repository.try(['check-ignore', '--no-index', '-v', '--', marker], { cwd: tree })
  const [, source, pattern] = /^(.*?:\d+):(.*)\t/.exec(told.stdout.toString()) ?? []
  return source === undefined ? '' : `, because of the line ${pattern} (${source})`
}
