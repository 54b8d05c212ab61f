import { access, constants, realpath, stat } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import type { RepoId } from '../../../shared/ids.ts'
import { tryGit } from '../../base/git.ts'
import { repoIdOf } from '../../base/paths.ts'
import { findGit, type GitPlace } from '../../base/findGit.ts'
import { asSpelled } from '../../base/spelling.ts'
import { isShownInside, parseMounts, readMountinfo, type Mount } from './mounts.ts'
import { isInside } from './pathSafety.ts'

export type ProjectRoot = {
  /** Real path. */
  readonly path: string
  /** As the user named it, made absolute; may lead through a symlink to `path`. */
  readonly target: string
  /** Folder name in a changeset, unique among the roots also where case does not count. */
  readonly name: string
  readonly git: GitPlace | null
}

export type Project = {
  readonly repoId: RepoId
  /** Real path of the git common dir of the first root, or null where there is no git. */
  readonly commonDir: string | null
  readonly roots: readonly [ProjectRoot, ...ProjectRoot[]]
}

export async function identifyProject(paths: readonly string[]): Promise<Project> {
  const found: { path: string; target: string; key: string }[] = []
  for (const named of paths) {
    const root = await findRoot(named)
    if (!found.some((other) => other.path === root.path && other.target === root.target)) found.push(root)
  }
  // Of one folder nobody needs to know what else is mounted.
  refuseNesting(found, found.length < 2 ? [] : parseMounts(await readMountinfo()))
  const names = uniqueNames(found.map((root) => root.target))
  const roots = await Promise.all(
    found.map(async ({ path, target }, index) => ({
      path,
      target,
      name: names[index] as string,
      git: await findGit(path),
    })),
  )
  const [first, ...rest] = roots
  if (first === undefined) {
    throw new OrangeryError('workspace.no_root', 'project: no folder was named', {
      kind: 'input',
      hint: 'Name at least one folder.',
    })
  }
  const commonDir = first.git?.commonDir ?? null
  return { repoId: repoIdOf(commonDir ?? first.path), commonDir, roots: [first, ...rest] }
}

/** The repository of a linked checkout that was named without it, and that knows the checkout; null: there is none. */
export function gitBeside({ path, git }: ProjectRoot, roots: readonly ProjectRoot[]): string | null {
  if (git === null || !git.linked || !git.confirmed || git.top !== path) return null
  return roots.some((root) => git.commonDir.startsWith(`${root.path}/`)) ? null : git.commonDir
}

/** All of these, each once. */
export const gitsBeside = ({ roots }: Pick<Project, 'roots'>): string[] => [
  ...new Set(roots.map((root) => gitBeside(root, roots)).filter((folder) => folder !== null)),
]

/** The repository of a project, where it is its own. */
export async function requireGit({ roots: [{ target, git }], commonDir }: Project): Promise<string> {
  if (commonDir === null || git === null) {
    throw new OrangeryError('workspace.not_git', `${target}: not in a git repository`, {
      kind: 'input',
      hint: 'Worktrees need git; `orangery run` works without.',
    })
  }
  // Who made a checkout can name any of the user's repositories in it. (escape: worktree-gitdir)
  if (git.confirmed || (await isSubmodule(git))) return commonDir
  throw new OrangeryError(
    'workspace.foreign_repository',
    `${target}: its .git names ${commonDir}, and that repository knows nothing of this checkout`,
    { kind: 'refused', hint: `If they belong together, name the repository itself: --repo ${commonDir}` },
  )
}

/** Git says in a submodule's repository where its checkout is. */
async function isSubmodule({ top, gitDir, commonDir }: GitPlace): Promise<boolean> {
  if (gitDir !== commonDir) return false
  const said = await tryGit(['config', '--no-includes', `--file=${gitDir}/config`, 'core.worktree'])
  const named = said.stdout.toString().trim()
  return said.code === 0 && (await realpath(resolve(gitDir, named)).catch(() => null)) === top
}

async function findRoot(named: string): Promise<{ path: string; target: string; key: string }> {
  const target = resolve(named)
  try {
    const path = await asSpelled(await realpath(target))
    const info = await stat(path)
    if (!info.isDirectory()) {
      throw new OrangeryError('workspace.root_not_directory', `${named}: not a folder`, {
        kind: 'input',
        hint: 'Name the folder that holds the file.',
      })
    }
    await access(path, constants.R_OK | constants.X_OK)
    return { path, target, key: `${info.dev}:${info.ino}` }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP' || code === 'ENAMETOOLONG') {
      throw new OrangeryError('workspace.root_missing', `${named}: there is no such folder`, {
        kind: 'input',
        hint: 'Check the spelling, or make the folder first.',
        cause: error,
      })
    }
    if (code === 'EACCES' || code === 'EPERM') {
      throw new OrangeryError('workspace.root_unreadable', `${named}: you may not read this folder`, {
        kind: 'input',
        hint: 'Name a folder that you can list.',
        cause: error,
      })
    }
    throw error
  }
}

function refuseNesting(
  roots: readonly { path: string; target: string; key: string }[],
  mounts: readonly Mount[],
): void {
  for (const [index, inner] of roots.entries()) {
    for (const outer of roots.slice(0, index).concat(roots.slice(index + 1))) {
      // A bind mount shows one folder at two real paths; only the device and inode tell.
      const same = inner.key === outer.key
      if (
        same ||
        isInside(inner.path, outer.path) ||
        isInside(inner.target, outer.target) ||
        isShownInside(inner.path, outer.path, mounts)
      ) {
        throw new OrangeryError(
          'workspace.root_inside_root',
          same
            ? `${inner.target}: the same folder as ${outer.target}`
            : `${inner.target} lies inside ${outer.target}`,
          { kind: 'input', hint: same ? 'Name it once.' : 'Name only the outer folder.' },
        )
      }
    }
  }
}

/** Folder names for a changeset: the last part of each path, numbered where two are alike. */
export function uniqueNames(paths: readonly string[]): string[] {
  const taken = new Set<string>()
  return paths.map((path) => {
    const plain = basename(path) || 'root'
    for (let count = 1; ; count += 1) {
      const suffix = count === 1 ? '' : `-${count}`
      // A 255-byte folder name has no room for a number.
      const name = suffix === '' ? plain : `${shorten(plain, 255 - suffix.length)}${suffix}`
      const key = name.normalize('NFC').toLowerCase()
      if (taken.has(key)) continue
      taken.add(key)
      return name
    }
  })
}

function shorten(name: string, bytes: number): string {
  let short = name
  while (Buffer.byteLength(short) > bytes) short = [...short].slice(0, -1).join('')
  return short
}
