import { lstat, realpath } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import type { WorkspaceRoot } from '../../base/workspace.ts'

/** What `find` reads as a pattern, meant as it stands. */
export const literal = (text: string) => text.replaceAll(/[\\*?[\]]/g, String.raw`\$&`)

type Names = Pick<WorkspaceRoot, 'path' | 'target'>

/** `name`: at any depth. `path`: from the root's top, with `*` for any number of folders too. */
export type PlacedPattern = { readonly kind: 'name' | 'path'; readonly glob: string }

const partsOf = (path: string) => path.split('/').filter((part) => part !== '' && part !== '.')
const isGlob = (part: string) => /[*?[]/.test(part)
const fromHome = (pattern: string) => pattern.replace(/^~(?=\/)/, () => literal(homedir()))

// Of two readings of a name with brackets both are hidden, and a class counts for any character.
function partMatches(glob: string, name: string): boolean {
  const source = glob.replaceAll(/\\(.)|\[[^\]]*\]|[^]/gu, (token: string, escaped?: string) => {
    if (token === '*') return '.*'
    if (token === '?' || (token.startsWith('[') && token.length > 1)) return '.'
    return (escaped ?? token).replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)
  })
  return glob === name || new RegExp(`^${source}$`, 'su').test(name)
}

/** What is left of an absolute pattern below a folder; of one that names the folder or one above it, nothing. */
function restsBelow(parts: readonly string[], folder: readonly string[]): readonly (readonly string[])[] {
  const [part, ...others] = parts
  const [name, ...below] = folder
  if (part === undefined || name === undefined) return [parts]
  if (part === '**')
    return [...restsBelow(parts, below), ...(others.length === 0 ? [] : restsBelow(others, folder))]
  return partMatches(part, name) ? restsBelow(others, below) : []
}

/** `**` is any number of folders, also none. */
function spellings(parts: readonly string[]): readonly string[] {
  const at = parts.indexOf('**')
  if (at === -1) return [parts.join('/')]
  const [before, after] = [parts.slice(0, at), parts.slice(at + 1)]
  const some = spellings([...before, '*', ...after])
  return after.length === 0 ? some : [...spellings([...before, ...after]), ...some]
}

const atPath = (parts: readonly string[]) =>
  spellings(parts).map((glob): PlacedPattern => ({ kind: 'path', glob }))

const restsIn = (pattern: string, { path, target }: Names) =>
  [...new Set([path, target])].flatMap((name) => restsBelow(partsOf(pattern), partsOf(name)))

/**
 * Where in a root a pattern matches, as in .gitignore: without a slash it is a name at any depth, with one a path
 * from the root. Beyond that, one that begins with the root's own path, or with `~/` and it, means what it says.
 */
export function placedIn(pattern: string, root: Names): readonly PlacedPattern[] {
  const plain = pattern.replace(/\/+$/, '')
  if (!plain.includes('/')) return [{ kind: 'name', glob: plain }]
  const full = fromHome(plain)
  const inside = full.startsWith('/') ? restsIn(full, root) : []
  return [...(plain.startsWith('~/') ? [] : [partsOf(plain)]), ...inside]
    .filter((parts) => parts.length > 0)
    .flatMap(atPath)
}

/** An absolute pattern with links followed on the way to its first glob, or to the name that is its last part. */
async function throughLinks(full: string): Promise<string> {
  const parts = partsOf(full)
  const firstGlob = parts.findIndex(isGlob)
  for (let count = firstGlob === -1 ? parts.length - 1 : firstGlob; count > 0; count--) {
    const plain = `/${parts.slice(0, count).join('/')}`.replaceAll(/\\(.)/g, '$1')
    const real = await realpath(plain).catch(() => null)
    if (real !== null) return [literal(real), ...parts.slice(count)].join('/')
  }
  return full
}

/** Each pattern, and the absolute ones with links followed as well: a root has more names than its own two. */
export async function withRealPaths(patterns: readonly string[]): Promise<readonly string[]> {
  const found = await Promise.all(
    patterns.map(async (pattern) => {
      const full = fromHome(pattern)
      return full.startsWith('/') ? [pattern, await throughLinks(full)] : [pattern]
    }),
  )
  return [...new Set(found.flat())]
}

const isThere = (path: string) =>
  lstat(path).then(
    () => true,
    () => false,
  )

async function faultIn(pattern: string, roots: readonly Names[], isAsked: boolean): Promise<string | null> {
  const full = fromHome(pattern)
  if (!full.startsWith('/')) return null
  const rests = (await withRealPaths([pattern]))
    .flatMap((each) => roots.map((root) => ({ root, rests: restsIn(fromHome(each), root) })))
    .filter((placed) => placed.rests.length > 0)
  const whole = rests.find((placed) => placed.rests.some((parts) => parts.length === 0))
  if (whole !== undefined) return `would hide ${whole.root.target} as a whole`
  // A config speaks of all projects, and holds what its patterns name in others.
  if (rests.length > 0 || !isAsked) return null
  const [first = ''] = partsOf(pattern)
  const isAnchored =
    !pattern.startsWith('~') &&
    (isGlob(first) ||
      !(await isThere(join('/', first))) ||
      (await Promise.all(roots.map(({ path }) => isThere(join(path, first))))).includes(true))
  return isAnchored ? null : `lies in none of the roots`
}

/** Bad input: a pattern that would hide nothing, and nobody would know, or everything. `asked` are the spec's. */
export async function refuseHide(
  hide: readonly string[],
  asked: readonly string[],
  folders: readonly string[],
): Promise<void> {
  if (!hide.some((pattern) => /^[/~]/.test(pattern))) return
  const roots = await Promise.all(
    folders.map(async (target) => ({ target, path: await realpath(target).catch(() => target) })),
  )
  for (const pattern of hide) {
    const fault = await faultIn(pattern, roots, asked.includes(pattern))
    if (fault === null) continue
    throw new OrangeryError('spec.hide', `hide: ${JSON.stringify(pattern)} ${fault}`, {
      kind: 'input',
      hint: `Give a name (".env*"), or a path from the root ("conf/key"); a root is hidden by root_modes, and what is outside of ${folders.join(', ')} is not shown anyway unless the agent's card grants it.`,
    })
  }
}
