import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, realpath } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import type { ExportFormat } from '../../shared/changeset.ts'
import { makeDispatchId, type DispatchId } from '../../shared/ids.ts'
import { listFolders, recordCopy } from '../base/copiedTree.ts'
import { layout, repoIdOf, type Layout } from '../base/paths.ts'
import { run } from '../base/process.ts'
import type { Workspace } from '../base/workspace.ts'
import { openStore, type Store } from '../store/index.ts'
import { aDispatch } from '../store/testing.ts'
import { realDisk } from './disk.ts'
import type { Manifest } from './manifest.ts'
import { SavedManifests } from './saved.ts'
import { createChangesets, type Changesets, type ChangesetsOptions } from './changesets.ts'

/** A project with one or more roots, a real store, and agents that write through a real kernel overlay. */
export class Bench implements AsyncDisposable {
  readonly folder: string
  readonly roots: readonly string[]
  readonly layout: Layout
  readonly store: Store
  readonly changesets: Changesets

  private constructor(
    folder: string,
    roots: readonly string[],
    store: Store,
    rest: Partial<ChangesetsOptions>,
  ) {
    this.folder = folder
    this.roots = roots
    this.store = store
    this.layout = layout(join(folder, 'data'))
    this.changesets = createChangesets({ layout: this.layout, records: store.changesets, ...rest })
  }

  static async make(
    names: readonly string[] = ['project'],
    rest: Partial<ChangesetsOptions> = {},
  ): Promise<Bench> {
    const folder = await realpath(await mkdtemp(join(tmpdir(), 'orangery-changeset-')))
    const roots = names.map((name) => join(folder, name))
    for (const root of roots) await mkdir(root, { recursive: true })
    return new Bench(folder, roots, await openStore(join(folder, 'data')), rest)
  }

  get root(): string {
    return this.roots[0] as string
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.store.close()
    await run('chmod', ['-R', 'u+rwx', this.folder])
    await run('rm', ['-rf', '--', this.folder])
  }

  /** Runs a script in the first root as the user himself would. */
  async user(script: string): Promise<void> {
    await this.#shell('sh', ['-ec', script], this.root)
  }

  async workspace(paths: readonly string[] = this.roots): Promise<Workspace> {
    const id = makeDispatchId(new Date(), randomBytes(2))
    const repoId = repoIdOf(paths[0] ?? this.root)
    this.store.dispatches.create({ ...aDispatch({ id }), repoId })
    const dir = this.layout.sandbox(repoId, id)
    const roots = paths.map((path, at) => ({
      path,
      target: path,
      name: basename(path),
      role: 'project' as const,
      access: 'rw' as const,
      mount: {
        kind: 'overlay' as const,
        lower: path,
        upper: join(dir, `upper${at}`),
        work: join(dir, `work${at}`),
      },
    }))
    for (const { mount } of roots) {
      await mkdir(mount.upper, { recursive: true })
      await mkdir(mount.work, { recursive: true })
    }
    // Files made just before must have an older ctime than the start, as in real life.
    await new Promise((resolve) => setTimeout(resolve, 60))
    return {
      id,
      repoId,
      strategy: 'overlay',
      driver: 'kernel-overlay',
      dir,
      roots,
      createdAtMs: Date.now(),
    }
  }

  /** The same where the agent works on copies of the roots. */
  async copiedWorkspace(): Promise<Workspace> {
    const workspace = await this.workspace()
    const roots = workspace.roots.map((root, at) => ({
      ...root,
      mount: { kind: 'bind' as const, source: join(workspace.dir, String(at), 'copy') },
    }))
    for (const { path, mount } of roots) {
      const folders = await listFolders(path)
      await mkdir(mount.source, { recursive: true })
      await this.#shell('cp', ['-a', '--', `${path}/.`, mount.source], '/')
      await recordCopy(folders, mount.source)
    }
    await new Promise((resolve) => setTimeout(resolve, 60))
    return { ...workspace, strategy: 'clone', driver: 'plain-copy', roots, copiedAtMs: Date.now() - 20 }
  }

  /** Runs a script as an agent would: each root at its own path, all writes in the upper layers. */
  async agent(workspace: Workspace, script: string): Promise<void> {
    const mounts = workspace.roots.map(({ path, mount }) =>
      mount.kind === 'overlay'
        ? `mount -t overlay overlay -o lowerdir=${mount.lower},upperdir=${mount.upper},workdir=${mount.work},userxattr,index=off,xino=off ${path}`
        : `mount --bind ${mount.source} ${path}`,
    )
    const body = [...mounts, `cd ${workspace.roots[0]?.path ?? this.root}`, script].join('\n')
    await this.#shell('unshare', ['-Urm', 'sh', '-ec', body], '/')
  }

  /** A whole dispatch: workspace, script, final capture. */
  async dispatch(
    script: string,
    made: Promise<Workspace> = this.workspace(),
  ): Promise<{ id: DispatchId; workspace: Workspace }> {
    const workspace = await made
    await this.agent(workspace, script)
    await this.changesets.capture(workspace, { final: true })
    return { id: workspace.id, workspace }
  }

  manifest(id: DispatchId): Promise<Manifest> {
    const record = this.store.changesets.find(id)
    if (record === null) throw new Error(`no changeset ${id}`)
    return new SavedManifests(this.layout.changeset(record.repoId, id), realDisk).read(record.revision)
  }

  /** What an export would write. */
  async exported(id: DispatchId, format: ExportFormat, includeIgnored = false): Promise<Buffer> {
    const { chunks } = await this.changesets.export(id, { format, include_ignored: includeIgnored })
    const read: Buffer[] = []
    for await (const chunk of chunks) read.push(chunk)
    return Buffer.concat(read)
  }

  /** Every path below the first root with its kind, mode and content hash. */
  async snapshot(root: string = this.root): Promise<string> {
    const script = `find . -mindepth 1 -printf '%P %y %m %l\\n' | LC_ALL=C sort; find . -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum`
    // What its owner closed to himself is read as root, who an ordinary user is in a namespace of his own.
    const isOrdinary = process.platform === 'linux' && process.getuid?.() !== 0
    const [file, ...before] = isOrdinary ? (['unshare', '-r', 'sh'] as const) : (['sh'] as const)
    return (await this.#shell(file, [...before, '-ec', script], root)).toString('latin1')
  }

  async #shell(file: string, args: readonly string[], cwd: string): Promise<Buffer> {
    const result = await run(file, args, {
      cwd,
      env: { PATH: process.env['PATH'] ?? '', HOME: this.folder, LANG: 'C.UTF-8' },
    })
    if (result.code !== 0) throw new Error(`script failed with ${result.code}: ${result.stderr}`)
    return result.stdout
  }
}
