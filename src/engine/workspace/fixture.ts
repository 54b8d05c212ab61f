import { createHash } from 'node:crypto'
import { rmSync } from 'node:fs'
import { cp, lstat, mkdir, mkdtemp, readdir, readFile, readlink, realpath, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { RepoId } from '../../shared/ids.ts'
import { git } from '../base/git.ts'
import type { InvocationMeta, WorktreeMeta } from '../base/invocation.ts'
import { layout as layoutAt, type Layout } from '../base/paths.ts'
import { removeTree } from './end/removeTree.ts'
import { startAgent, type StartAgentOptions } from './make/startAgent.ts'
import { createWorktree } from './make/worktree.ts'

const plainFiles = { 'a.txt': 'one\n', 'src/b.txt': 'two\n' }
let template: Promise<string> | undefined

/** The repository most tests want, made once in a process and copied from then on. */
async function makeTemplate(): Promise<string> {
  const ground = await Ground.make()
  process.on('exit', () => rmSync(ground.base, { recursive: true, force: true }))
  return ground.repo('template', { ...plainFiles })
}

/** A private folder with a data folder and, on demand, real repositories; for tests. */
export class Ground implements AsyncDisposable {
  readonly base: string
  readonly layout: Layout

  private constructor(base: string) {
    this.base = base
    this.layout = layoutAt(join(base, 'data'))
  }

  static async make(): Promise<Ground> {
    return new Ground(await realpath(await mkdtemp(join(tmpdir(), 'orangery-workspace-'))))
  }

  path(...parts: string[]): string {
    return join(this.base, ...parts)
  }

  async folder(...parts: string[]): Promise<string> {
    await mkdir(this.path(...parts), { recursive: true })
    return this.path(...parts)
  }

  /** A repository on branch `main` with one commit of these files. */
  async repo(name: string, files: Readonly<Record<string, string>> = plainFiles) {
    const repo = await this.folder(name)
    if (files === plainFiles) {
      template ??= makeTemplate()
      await cp(await template, repo, { recursive: true })
      return repo
    }
    await git(['init', '-q', '-b', 'main', repo])
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(repo, path)), { recursive: true })
      await writeFile(join(repo, path), text)
    }
    await git(['-C', repo, 'add', '-A'])
    await git(['-C', repo, 'commit', '-q', '-m', 'first'])
    return repo
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await removeTree(this.base)
  }
}

/** A repository with one integration worktree, `feature`, and what tests of sandboxes do with it. */
export type Feature = {
  readonly ground: Ground
  readonly repo: string
  readonly worktree: WorktreeMeta
  repoId(): RepoId
  start(over?: Partial<StartAgentOptions>): Promise<InvocationMeta>
  branches(): Promise<string>
}

export async function makeFeature(): Promise<Feature> {
  const ground = await Ground.make()
  const { layout } = ground
  const repo = await ground.repo('repo')
  const worktree = await createWorktree({ layout, repo, name: 'feature' })
  return {
    ground,
    repo,
    worktree,
    repoId: () => worktree.repo_id as RepoId,
    start: (over = {}) => startAgent({ layout, worktree: 'feature', ...over }),
    branches: () => gitText(repo, 'branch', '--list', '--format=%(refname:short)'),
  }
}

export async function gitText(repo: string, ...args: string[]): Promise<string> {
  return (await git(['-C', repo, ...args])).toString().replace(/\n$/, '')
}

/** Every path below a tree with its bytes, mode and link target, as one hash. */
export async function fingerprint(tree: string): Promise<string> {
  const hash = createHash('sha256')
  const walk = async (at: string): Promise<void> => {
    const info = await lstat(at)
    hash.update(`${at}\0${info.mode}\0`)
    if (info.isSymbolicLink()) hash.update(await readlink(at))
    else if (info.isFile()) hash.update(await readFile(at))
    else for (const name of (await readdir(at)).sort()) await walk(join(at, name))
  }
  await walk(tree)
  return hash.digest('hex')
}
