import { constants } from 'node:fs'
import { lstat, mkdir, open, readFile, realpath } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { OrangeryError } from '../../shared/errors.ts'
import { writeFileAtomically } from '../base/files.ts'

const folder = '.agency'
export const integrationMarker = join(folder, 'INTEGRATION_MARKER')
export const sandboxMarker = join(folder, 'SANDBOX_MARKER')

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
  const named = join(commonDir, 'info', 'exclude')
  await mkdir(join(commonDir, 'info'), { recursive: true })
  const path = await realpath(named).catch(() => named)
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw error
  })
  const present = new Set(text.split('\n'))
  const missing = [integrationMarker, sandboxMarker]
    .map((marker) => `/${marker}`)
    .filter((line) => !present.has(line))
  if (missing.length === 0) return
  const start = text === '' || text.endsWith('\n') ? text : `${text}\n`
  const mode = await lstat(path).then(
    (info) => info.mode & 0o777,
    () => 0o644,
  )
  await writeFileAtomically(path, `${start}${missing.join('\n')}\n`, mode)
}
