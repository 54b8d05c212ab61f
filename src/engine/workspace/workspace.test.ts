import { randomBytes } from 'node:crypto'
import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { makeDispatchId } from '../../shared/ids.ts'
import { layout as layoutAt, repoIdOf, type Layout } from '../base/paths.ts'
import { git } from '../base/git.ts'
import { findKeyFolders } from '../base/homes.ts'
import {
  checkRoots,
  chooseDriver,
  describeDriver,
  disposeWorkspace,
  identifyProject,
  loadWorkspace,
  lowerRung,
  prepareWorkspace,
  readInvocationMeta,
  updateInvocation,
} from './index.ts'
import { isPlainRef } from './git/commits.ts'
import { parseMounts } from './find/mounts.ts'
import { refuseName } from './make/worktree.ts'
import { uniqueNames } from './find/project.ts'

let base: string
let layout: Layout
beforeEach(async () => {
  base = await realpath(await mkdtemp(join(tmpdir(), 'orangery-workspace-')))
  layout = layoutAt(join(base, 'data'))
})
afterEach(() => rm(base, { recursive: true, force: true }))

const newId = () => makeDispatchId(new Date(), randomBytes(2))
async function folder(...parts: string[]): Promise<string> {
  const path = join(base, ...parts)
  await mkdir(path, { recursive: true })
  return path
}
async function prepare(paths: string[], over: Partial<Parameters<typeof prepareWorkspace>[0]> = {}) {
  const project = await identifyProject(paths)
  return prepareWorkspace({
    id: newId(),
    project,
    strategy: 'overlay',
    driver: 'kernel-overlay',
    layout,
    name: null,
    runner: 'command',
    mode: 'headless',
    ...over,
  })
}

test('a project without git is known by the real path of its first root', async () => {
  const plain = await folder('plain')
  const link = join(base, 'link')
  await symlink(plain, link)
  const project = await identifyProject([link])
  expect(project).toMatchObject({
    repoId: repoIdOf(plain),
    commonDir: null,
    roots: [{ path: plain, target: link, name: 'link' }],
  })
})

test('every worktree and subfolder of a repository belongs to the same project', async () => {
  const repo = await folder('repo')
  await folder('repo', 'src', 'deep')
  await git(['init', '-q', repo])
  await git(['-C', repo, 'commit', '-q', '--allow-empty', '-m', 'first'])
  await git(['-C', repo, 'worktree', 'add', '-q', join(base, 'linked')])
  const expected = repoIdOf(join(repo, '.git'))
  for (const path of [repo, join(repo, 'src', 'deep'), join(base, 'linked')]) {
    expect((await identifyProject([path])).repoId).toBe(expected)
  }
})

test.each([
  ['missing', 'workspace.root_missing'],
  ['file', 'workspace.root_not_directory'],
])('a root that is %s is refused as bad input', async (name, code) => {
  await writeFile(join(base, 'file'), '')
  await expect(identifyProject([join(base, name)])).rejects.toMatchObject({ code, kind: 'input' })
})

test('roots inside each other are refused, also through symlinks', async () => {
  const outer = await folder('outer')
  const inner = await folder('outer', 'inner')
  await symlink(inner, join(base, 'alias'))
  for (const pair of [
    [outer, inner],
    [inner, outer],
    [outer, join(base, 'alias')],
    [inner, join(base, 'alias')],
  ]) {
    await expect(identifyProject(pair)).rejects.toMatchObject({ code: 'workspace.root_inside_root' })
  }
  expect((await identifyProject([outer, outer])).roots).toHaveLength(1)
})

test('folder names stay unique where case does not count and where a name has no room for a number', () => {
  expect(uniqueNames(['/a/App', '/b/app', '/c/app'])).toEqual(['App', 'app-2', 'app-3'])
  const long = 'ä'.repeat(127)
  const names = uniqueNames([`/a/${long}`, `/b/${long}`])
  expect(new Set(names).size).toBe(2)
  for (const name of names) expect(Buffer.byteLength(name)).toBeLessThanOrEqual(255)
})

test('an overlay workspace is a record and empty folders beside the untouched roots', async () => {
  const one = await folder('one')
  const two = await folder('two')
  await chmod(two, 0o750)
  const workspace = await prepare([one, two], { name: 'arch-agent' })
  expect(workspace.roots.map((root) => root.mount)).toEqual(
    [one, two].map((lower, index) => ({
      kind: 'overlay',
      lower,
      upper: join(workspace.dir, 'roots', String(index), 'upper'),
      work: join(workspace.dir, 'roots', String(index), 'work'),
    })),
  )
  for (const root of workspace.roots) {
    if (root.mount.kind !== 'overlay') throw new Error('expected an overlay')
    expect(await readdir(root.mount.upper)).toEqual([])
    expect((await stat(root.mount.upper)).mode & 0o777).toBe((await stat(root.path)).mode & 0o777)
  }
  const meta = await readInvocationMeta(layout, workspace.repoId, workspace.id)
  expect(meta).toMatchObject({
    schema_version: '1.0',
    invocation_id: workspace.id,
    invocation_name: 'arch-agent',
    status: 'starting',
    strategy: 'overlay',
    driver: 'kernel-overlay',
  })
  expect(meta.started_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
  expect(await loadWorkspace(layout, workspace.repoId, workspace.id)).toEqual(workspace)
})

test('an id is used once, and the second attempt leaves the first as it was', async () => {
  const root = await folder('root')
  const workspace = await prepare([root])
  await expect(prepare([root], { id: workspace.id })).rejects.toMatchObject({
    code: 'workspace.invocation_exists',
    kind: 'cannot_create',
  })
  expect(await loadWorkspace(layout, workspace.repoId, workspace.id)).toEqual(workspace)
})

test('a data folder inside a root is refused before anything is made', async () => {
  const root = await folder('root')
  layout = layoutAt(join(root, '.data'))
  await expect(prepare([root])).rejects.toMatchObject({ code: 'workspace.root_contains_data_dir' })
  expect(await readdir(layout.dataDir)).toEqual([])
})

test('a workspace that cannot be made leaves neither record nor folder', async () => {
  const root = await folder('root')
  const id = newId()
  const { repoId } = await identifyProject([root])
  await mkdir(layout.sandboxes(repoId), { recursive: true })
  await mkdir(layout.sandbox(repoId, id))
  await expect(prepare([root], { id })).rejects.toMatchObject({ code: 'workspace.sandbox_exists' })
  expect(await readdir(layout.invocations(repoId))).toEqual([])
  expect(await readdir(layout.sandboxes(repoId))).toEqual([id])
})

test('concurrent updates of one record lose nothing and keep fields they do not know', async () => {
  const workspace = await prepare([await folder('root')])
  const path = layout.invocationMeta(workspace.repoId, workspace.id)
  const text = JSON.parse(await readFile(path, 'utf8')) as object
  await writeFile(path, JSON.stringify({ ...text, later_field: 7 }))
  await Promise.all([
    updateInvocation(layout, workspace.repoId, workspace.id, { status: 'running' }),
    updateInvocation(layout, workspace.repoId, workspace.id, { runner: 'claude' }),
    updateInvocation(layout, workspace.repoId, workspace.id, { mode: 'headed' }),
  ])
  expect(await readInvocationMeta(layout, workspace.repoId, workspace.id)).toMatchObject({
    status: 'running',
    runner: 'claude',
    mode: 'headed',
    later_field: 7,
  })
})

test('taking a workspace down keeps work that has not landed, whatever the agent did to its folders', async () => {
  const workspace = await prepare([await folder('root')])
  const mount = workspace.roots[0]!.mount
  if (mount.kind !== 'overlay') throw new Error('expected an overlay')
  await mkdir(join(mount.upper, 'locked'))
  await writeFile(join(mount.upper, 'locked', 'work.txt'), 'precious')
  await chmod(join(mount.upper, 'locked'), 0)
  await mkdir(join(mount.work, 'work'), { mode: 0 })
  await disposeWorkspace(workspace, { archive: false })
  const meta = await readInvocationMeta(layout, workspace.repoId, workspace.id)
  expect(meta.archive).toBe(join(layout.archive, workspace.id))
  const kept = join(meta.archive!, 'content', 'roots', '0', 'upper', 'locked')
  await chmod(kept, 0o700)
  expect(await readFile(join(kept, 'work.txt'), 'utf8')).toBe('precious')
})

test('a workspace in which nothing was written goes without a trace', async () => {
  const workspace = await prepare([await folder('root')])
  await disposeWorkspace(workspace, { archive: false })
  await expect(stat(workspace.dir)).rejects.toMatchObject({ code: 'ENOENT' })
  await expect(stat(layout.archive)).rejects.toMatchObject({ code: 'ENOENT' })
})

test('a copy in which nothing was changed goes without a trace, and one with any change is kept', async () => {
  const root = await folder('root')
  await mkdir(join(root, 'sub'))
  for (const path of ['a.txt', 'sub/b.txt', '.git/index']) {
    await mkdir(dirname(join(root, path)), { recursive: true })
    await writeFile(join(root, path), 'old')
  }
  const end = async (work: (copy: string) => Promise<unknown>) => {
    const workspace = await prepare([root], { strategy: 'clone', driver: 'plain-copy' })
    const mount = workspace.roots[0]!.mount
    await work(mount.kind === 'bind' ? mount.source : '')
    await disposeWorkspace(workspace, { archive: false })
    return (await readInvocationMeta(layout, workspace.repoId, workspace.id)).archive !== null
  }
  expect(await end(async () => {})).toBe(false)
  // The same bytes again, and what `git status` alone rewrites, are no work.
  expect(await end((copy) => writeFile(join(copy, 'a.txt'), 'old'))).toBe(false)
  expect(await end((copy) => writeFile(join(copy, '.git/index'), 'new'))).toBe(false)
  await expect(stat(layout.archive)).rejects.toMatchObject({ code: 'ENOENT' })
  const works: ((copy: string) => Promise<unknown>)[] = [
    (copy) => writeFile(join(copy, 'sub/b.txt'), 'new'),
    (copy) => writeFile(join(copy, 'sub/new.txt'), ''),
    (copy) => rm(join(copy, 'sub/b.txt')),
    (copy) => chmod(join(copy, 'a.txt'), 0o755),
    (copy) => chmod(join(copy, 'sub'), 0o700),
    (copy) => mkdir(join(copy, 'empty')),
    (copy) => rename(join(copy, 'a.txt'), join(copy, 'sub/a.txt')),
    (copy) => writeFile(join(copy, '.git/config'), 'new'),
  ]
  for (const work of works) expect(await end(work)).toBe(true)
})

test('the driver follows the ladder, and every step down is said', async () => {
  const project = await identifyProject([await folder('root')])
  const none = { kernelOverlay: false, fuseOverlayfs: false, reflink: false }
  const choose = (facts: object) => chooseDriver(project, 'overlay', { ...none, ...facts })
  expect(choose({ kernelOverlay: true, fuseOverlayfs: true })).toBe('kernel-overlay')
  expect(choose({ fuseOverlayfs: true, reflink: true })).toBe('fuse-overlayfs')
  expect(choose({ reflink: true })).toBe('reflink-copy')
  expect(choose({})).toBe('plain-copy')
  expect(describeDriver('plain-copy', 'overlay')).toContain('because this host allows no overlay')
  expect(lowerRung('kernel-overlay', 'overlay')).toEqual([])
  expect(lowerRung('reflink-copy', 'clone')).toEqual([])
  // A clone where nothing clones costs a whole copy, and who asked for it is told.
  expect(lowerRung('plain-copy', 'clone')).toEqual([expect.stringContaining('time and disk for every file')])
  expect(chooseDriver(project, 'none', none)).toBe('direct')
  expect(() => chooseDriver(project, 'worktree', none)).toThrow('not in a git repository')
})

test('system folders, the home folder, the data folder and mounts inside a root are found before a start', async () => {
  const root = await folder('root')
  const project = await identifyProject([root])
  const at = (path: string) => ({ ...project, roots: [{ ...project.roots[0], path, target: path }] as const })
  const failures = (path: string, mountinfo = '') =>
    checkRoots(at(path), '/home/ann/.local/share/orangery', mountinfo, { homes: ['/nowhere', '/home/ann'] })
      .filter((check) => !check.ok)
      .map((check) => check.name)
  expect(failures('/home/ann/work')).toEqual([])
  expect(failures('/srv/work')).toEqual([])
  expect(failures('/')).toContain('system folder')
  expect(failures('/home/ann')).toEqual(['data folder', 'system folder'])
  expect(failures('/etc/nginx')).toEqual(['system folder'])
  const ofSystem = [
    '/usr',
    '/usr/bin',
    '/usr/lib/git-core',
    '/usr/sbin',
    '/usr/local',
    '/usr/local/bin',
    '/opt',
    '/var',
  ]
  for (const path of [
    ...ofSystem,
    '/var/lib',
    '/var/spool/cron',
    '/var/lib/dpkg/info',
    '/nix',
    '/private/etc/pam.d',
    '/private',
  ])
    expect(failures(path), path).toEqual(['system folder'])
  for (const path of [
    '/opt/work',
    '/usr/src/app',
    '/usr/local/src/work',
    '/var/www/site',
    '/private/var/folders/x',
  ])
    expect(failures(path), path).toEqual([])
  expect(failures('/home/ann/.local/share/orangery/backups')).toEqual(['own folder'])
  const mountinfo = '36 35 98:0 / /home/ann/work/my\\040disk rw,noatime shared:1 - ext3 /dev/root rw\n'
  expect(parseMounts(mountinfo).map(({ point }) => point)).toEqual(['/home/ann/work/my disk'])
  expect(failures('/home/ann/work', mountinfo)).toEqual(['mounts inside'])
})

test('a root that is, lies in or contains a folder of keys is refused, and not one beside it or in a repository it is linked from', async () => {
  const home = await folder('home-with-keys')
  const dots = await folder('dots')
  for (const name of ['.ssh/old', '.config/gh', '.config/nvim', '.cache', 'work'])
    await mkdir(join(home, name), { recursive: true })
  await mkdir(join(dots, 'aws'))
  await symlink('/nowhere', join(home, '.kube'))
  await symlink(join(dots, 'aws'), join(home, '.aws'))
  const keyFolders = findKeyFolders([home])
  const reasonFor = async (path: string) =>
    checkRoots(await identifyProject([path]), '/data', '', { homes: [home], keyFolders })
      .filter((check) => !check.ok)
      .map(({ name, detail }) => `${name}: ${detail.replaceAll(home, '~').replaceAll(dots, 'dots')}`)
  const kept = 'where keys and tokens are kept'
  expect(await reasonFor(join(home, '.ssh'))).toEqual([`keys: ~/.ssh is ${kept}`])
  expect(await reasonFor(join(home, '.ssh/old'))).toEqual([`keys: ~/.ssh/old lies in ~/.ssh, ${kept}`])
  expect(await reasonFor(join(home, '.config'))).toEqual([`keys: ~/.config contains ~/.config/gh, ${kept}`])
  expect(await reasonFor(join(home, '.aws'))).toEqual([`keys: ~/.aws is ${kept}`])
  for (const name of ['.config/nvim', '.cache', 'work']) expect(await reasonFor(join(home, name))).toEqual([])
  expect(await reasonFor(dots)).toEqual([])
})

test.each(['', '-x', 'a b', 'a..b', 'x.lock', 'sandbox', 'sandbox-1', '../up', 'a/b', 'é', 'x'.repeat(65)])(
  'the worktree name %j is refused as bad input',
  (name) => {
    expect(() => refuseName(name)).toThrow(
      expect.objectContaining({ code: 'workspace.bad_name', exitCode: 65 }),
    )
  },
)

test.each(['x', 'a.b', 'Fix_1-b', 'lock', 'a.locks'])('the worktree name %j is fine', (name) =>
  refuseName(name),
)

test.each([
  'refs/heads/../../x',
  'refs/heads/a b',
  'refs/heads/.x',
  'refs/heads/x.lock',
  'refs/heads/-x',
  'refs/heads/a\u0007',
  'refs//x',
])('a ref named %j by an agent does not count', (ref) => expect(isPlainRef(ref)).toBe(false))
