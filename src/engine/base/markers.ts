import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { git, tryGit, type GitOptions } from './git.ts'
import { makeScratch } from './scratch.ts'

/** The files by which a tree is known as one of ours. No git status, diff or commit ever shows them. */
export const integrationMarker = '.agency/INTEGRATION_MARKER'
export const sandboxMarker = '.agency/SANDBOX_MARKER'
export const markers: readonly string[] = [integrationMarker, sandboxMarker]

/** Takes the markers out of an index, as input for `update-index -z --index-info`. */
export const withdrawal = (idLength: number): string =>
  markers.map((marker) => `0 ${'0'.repeat(idLength)}\t${marker}\0`).join('')

/** An ignore file in the tree has the last word over `info/exclude`: these are the ones that reach the markers. */
export const ignoreFiles: readonly string[] = ['.gitignore', '.agency/.gitignore']

/** The line of an ignore file that would show a marker to git; null where none does. */
export async function showingLine(path: string, content: Buffer): Promise<string | null> {
  // Only a line that takes something back can.
  if (!/^!/m.test(content.toString('latin1'))) return null
  const folder = await makeScratch('orangery-ignore-')
  try {
    await git(['init', '-q', '--template=', folder])
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), content)
    const asked = await tryGit(['check-ignore', '--no-index', '-v', '--', ...markers], { cwd: folder })
    const [, line] = /^[^\n]*?:\d+:(!.*)\t[^\t\n]*$/m.exec(asked.stdout.toString()) ?? []
    return line ?? null
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const mostRewritten = 2_000

/**
 * The same history without the markers, for an agent that put one into a commit. Commits are written anew from
 * the first that holds one on, each the same whoever does it, and whatever does not hold one keeps its id.
 */
export async function withoutMarkers(
  tips: readonly string[],
  known: Iterable<string>,
  where: GitOptions,
): Promise<ReadonlyMap<string, string>> {
  const same = new Map<string, string>()
  if (tips.length === 0) return same
  const input = `${[...tips, ...[...known].map((commit) => `^${commit}`)].join('\n')}\n`
  const walk = async (...rest: string[]) =>
    (await git(['rev-list', '--topo-order', '--reverse', '--stdin', ...rest], { ...where, input }))
      .toString()
      .split('\n')
      .filter((line) => line !== '')
  const holding = await walk('--full-history', '--', ...markers)
  if (holding.length === 0) return same
  const commits = await walk('--parents')
  if (commits.length > mostRewritten)
    throw new Error(`a marker of ours is in more than ${mostRewritten} commits`)
  const renamed = new Map<string, string>()
  const folder = await makeScratch('orangery-index-')
  try {
    const index = { ...where, env: { ...where.env, GIT_INDEX_FILE: join(folder, 'index') } }
    for (const line of commits) {
      const [commit = '', ...parents] = line.split(' ')
      const held = (
        await git(['ls-tree', '--full-tree', '--name-only', commit, ...markers], where)
      ).toString()
      if (held === '' && !parents.some((parent) => renamed.has(parent))) continue
      await git(['read-tree', commit], index)
      await git(['update-index', '-z', '--index-info'], { ...index, input: withdrawal(commit.length) })
      const tree = (await git(['write-tree'], index)).toString().trim()
      renamed.set(commit, await rewritten(commit, tree, renamed, where))
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  return renamed
}

/** One commit with another tree and other parents; a signature would not hold any more and goes. */
async function rewritten(
  commit: string,
  tree: string,
  renamed: ReadonlyMap<string, string>,
  where: GitOptions,
): Promise<string> {
  const raw = (await git(['cat-file', 'commit', commit], where)).toString('latin1')
  const end = raw.indexOf('\n\n')
  const header = raw
    .slice(0, end)
    .replace(/^(?:gpgsig|gpgsig-sha256) .*(?:\n .*)*\n?/gm, '')
    .replace(/\n$/, '')
    .replace(/^tree .*$/m, `tree ${tree}`)
    .replace(/^parent (.*)$/gm, (_line, parent: string) => `parent ${renamed.get(parent) ?? parent}`)
  const input = Buffer.from(header + raw.slice(end), 'latin1')
  return (await git(['hash-object', '-t', 'commit', '-w', '--stdin'], { ...where, input })).toString().trim()
}
