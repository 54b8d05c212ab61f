import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import { integrationMarker, showingLine } from '../../base/markers.ts'
import type { Workspace, WorkspaceRoot } from '../../base/workspace.ts'
import { Aliases, type UserLinks } from './aliases.ts'
import type { BytePath } from '../bytePath.ts'
import { hasChangedScripts, isIgnoreFile, isPackageFile, type PackageContent } from './classify.ts'
import type { Disk } from '../disk.ts'
import { hooksFolders } from './hooksFolders.ts'
import { ignoredPaths } from './ignored.ts'
import { followLink, type Home, type LinkAt } from './links.ts'
import { entryKey, type Entry, type Side } from '../manifest.ts'
import { BlobReader } from '../objects/objects.ts'
import { leadsToProtected } from './protectedPaths.ts'
import { inRepository, repositoryFinder } from './repositories.ts'
import { Pace } from '../pace.ts'
import { QuickTree } from '../capture/quickTree.ts'
import { baseOwner, sidesOf } from '../capture/scan.ts'

/** Every path under which a root can be named, from inside the sandbox or from outside. */
export function homesOf(workspace: Workspace): readonly Home[] {
  return workspace.roots.map((root) => ({ name: root.path, paths: [root.target, root.path] }))
}

/** Says of each entry whether it may land at all, and whether "approve all" may speak for it. */
export async function classifyEntries(
  workspace: Workspace,
  roots: readonly WorkspaceRoot[],
  entries: readonly Entry[],
  gitDir: string,
  userLinks: UserLinks,
  { disk, ...options }: { readonly disk: Disk; readonly protectedPaths: readonly string[] },
): Promise<Entry[]> {
  if (entries.length === 0) return []
  const hooks = await hooksFolders(roots.map(({ path }) => path))
  const protectedPaths = [...options.protectedPaths, ...hooks]
  await using resources = new AsyncDisposableStack()
  const blobs = resources.use(new BlobReader(gitDir))
  const originals = new Map(
    roots.map((root) => [root.path, resources.use(new QuickTree(sidesOf(root).base, baseOwner(root), disk))]),
  )
  const homes = homesOf(workspace)
  const before = linksBefore(originals)
  const after = linksAfter(entries, blobs, before)
  const ownLinks = entries.filter((entry) => entry.result?.kind === 'symlink')
  const aliases = await Aliases.find(userLinks, ownLinks, homes, [before, after], protectedPaths)
  const ignored = new Map<string, ReadonlySet<BytePath>>()
  const repositoryOf = new Map<string, Awaited<ReturnType<typeof repositoryFinder>>>()
  for (const root of roots) {
    const own = entries.filter((entry) => entry.root === root.path)
    const paths = own.map((entry) => entry.path)
    ignored.set(root.path, await ignoredPaths(sidesOf(root).base, gitDir, paths))
    const original = originals.get(root.path)
    if (original !== undefined)
      repositoryOf.set(root.path, await repositoryFinder(root.path, own, original, disk))
  }
  const read = async (side: Side | null): Promise<PackageContent> => {
    if (side === null) return null
    return side.kind === 'file' && side.size < 4 * 1024 * 1024 ? blobs.read(side.oid) : 'unreadable'
  }
  const done: Entry[] = []
  const pace = new Pace()
  for (const entry of entries) {
    if (pace.isDue) await pace.breathe()
    const { root, path, base, result } = entry
    let refused: string | null = null
    if (result?.kind === 'special') refused = `a ${result.what} never lands`
    if (result?.kind === 'symlink') {
      const target = (await blobs.read(result.oid)).toString('latin1')
      const followed = await followLink({ root, path, target }, homes, after)
      refused = followed.stays ? null : followed.why
    }
    const repository = (await repositoryOf.get(root)?.(path)) ?? null
    if (repository !== null) refused ??= inRepository
    if (isIgnoreFile(path) && (await isMarkedTree(root)))
      refused ??= await showsMarker(path, await read(result))
    const isPackage = [entry, ...aliases.of(entry)].some((each) => isPackageFile(each.path))
    const hasScripts = isPackage && hasChangedScripts(await read(base), await read(result))
    const isLink = base?.kind === 'symlink' || result?.kind === 'symlink'
    done.push({
      ...entry,
      refused,
      ignored: ignored.get(root)?.has(path) === true,
      protected:
        hasScripts || aliases.isProtected(entry) || (isLink && leadsToProtected(root, path, protectedPaths)),
    })
  }
  return done
}

function linksBefore(originals: ReadonlyMap<string, QuickTree>): LinkAt {
  return async (root, path) => {
    const tree = originals.get(root)
    if (tree === undefined || tree.lstat(path)?.isSymbolicLink() !== true) return null
    return tree.readlink(path).toString('latin1')
  }
}

function linksAfter(entries: readonly Entry[], blobs: BlobReader, before: LinkAt): LinkAt {
  const byKey = new Map(entries.map((entry) => [entryKey(entry), entry]))
  return async (root, path) => {
    const known = byKey.get(entryKey({ root, path }))
    if (known === undefined) return before(root, path)
    return known.result?.kind === 'symlink' ? (await blobs.read(known.result.oid)).toString('latin1') : null
  }
}

export const isMarkedTree = (root: string): Promise<boolean> =>
  lstat(join(root, integrationMarker)).then(
    (info) => info.isFile(),
    () => false,
  )

// An agent's ignore file could make the user commit a marker, and every checkout of that look like one of ours.
export async function showsMarker(path: BytePath, content: PackageContent): Promise<string | null> {
  if (!Buffer.isBuffer(content)) return null
  const line = await showingLine(path, content)
  return line === null ? null : `its line ${line} would show ${integrationMarker} to git`
}
