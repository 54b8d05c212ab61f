import { randomBytes } from 'node:crypto'
import {
  chmod,
  mkdir,
  mkdtemp,
  readFile,
  readdir,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Bench, execute, fingerprint } from '../dispatch/harness.ts'

let bench: Bench
beforeAll(async () => {
  bench = await Bench.create({ 'old.txt': 'old\n' })
})
afterAll(() => bench[Symbol.asyncDispose]())

async function run(script: string, roots: string[], spec: object = {}) {
  const before = await Promise.all(roots.map((root) => fingerprint(root)))
  const id = await bench.spawn(script, { roots, sandbox_spec: JSON.stringify(spec) })
  const ended = await bench.ended(id)
  const after = await Promise.all(roots.map((root) => fingerprint(root)))
  return {
    id,
    ended,
    output: await bench.output(id),
    untouched: JSON.stringify(before) === JSON.stringify(after),
  }
}
const folder = async (name: string, files: Readonly<Record<string, string>> = {}) => {
  const path = join(bench.base, name)
  await mkdir(path, { recursive: true })
  for (const [file, text] of Object.entries(files)) await writeFile(join(path, file), text)
  return path
}
/** What it printed, line by line; a terminal adds a return to each. */
const words = async (id: string) => (await bench.output(id)).replaceAll(/\r?\n/g, '|')
const changed = async (id: string) =>
  (await bench.client.call('changeset.get', { id })).files
    .map(({ root, path, change }) => `${root} ${change} ${path}`)
    .sort()

test('several roots are one workspace with one review, and all stay as they are until it lands', async () => {
  const [one, two] = [await folder('one', { 'a.txt': '1' }), await folder('two', { 'b.txt': '2' })]
  const { id, untouched } = await run(`echo x > ${one}/new.txt; rm ${two}/b.txt`, [one, two])
  expect(untouched).toBe(true)
  expect(await changed(id)).toEqual([`${one} added new.txt`, `${two} deleted b.txt`])
  await bench.client.call('changeset.apply', { id, all: true })
  expect(await readdir(two)).toEqual([])
})

test('a root that is a symlink is worked on at the path that was named and lands where it leads', async () => {
  const real = await folder('real', { 'a.txt': '1' })
  const link = join(bench.base, 'link')
  await symlink(real, link)
  const { id, output } = await run('pwd; echo 2 > a.txt', [link])
  expect(output).toContain(link)
  await bench.client.call('changeset.apply', { id, all: true })
  expect(await readFile(join(real, 'a.txt'), 'utf8')).toBe('2\n')
})

test('a root on another filesystem than the data folder works the same', async () => {
  const root = await mkdtemp('/dev/shm/orangery-root-')
  try {
    await writeFile(join(root, 'a.txt'), '1')
    expect((await stat(root)).dev).not.toBe((await stat(bench.dataDir)).dev)
    const { id, untouched } = await run('echo 2 > a.txt; echo 3 > b.txt', [root])
    expect(untouched).toBe(true)
    expect(await changed(id)).toEqual([`${root} added b.txt`, `${root} modified a.txt`])
  } finally {
    await rm(root, { recursive: true })
  }
})

test('a root the user may not write can still be worked on', async () => {
  const root = await folder('readonly', { 'a.txt': '1' })
  await chmod(join(root, 'a.txt'), 0o444)
  await chmod(root, 0o555)
  const { id, output } = await run('chmod u+w . a.txt; echo 2 > a.txt; cat a.txt', [root])
  expect(output).toContain('2')
  expect(await changed(id)).toContain(`${root} modified a.txt`)
  expect((await stat(root)).mode & 0o777).toBe(0o555)
  await chmod(root, 0o755)
})

test('names of 255 bytes, names that are not UTF-8 and names that differ only in case survive', async () => {
  const root = await folder('names', { Readme: 'A', readme: 'b' })
  const long = 'n'.repeat(255)
  const { id, untouched } = await run(
    `echo 1 > ${long}; printf x > "$(printf 'caf\\351')"; echo 2 > README; echo 3 >> readme; mkdir "$(printf 'new\\nline')"; touch "$(printf 'new\\nline')/f"`,
    [root],
  )
  expect(untouched).toBe(true)
  const { files } = await bench.client.call('changeset.get', { id })
  expect(files.map((file) => file.path)).toEqual(
    expect.arrayContaining([long, 'README', 'readme', 'new\nline/f']),
  )
  expect(files.find((file) => file.path_b64 !== undefined)?.path_b64).toBe(
    Buffer.from('caf\xe9', 'latin1').toString('base64'),
  )
  await bench.client.call('changeset.apply', { id, all: true })
  expect((await readdir(root, { encoding: 'buffer' })).map((name) => name.toString('latin1'))).toContain(
    'caf\xe9',
  )
})

test('a root with another repository and a submodule inside is whole for the agent', async () => {
  const identity = ['-c', 'user.name=u', '-c', 'user.email=u@v', '-c', 'protocol.file.allow=always']
  const git = (at: string, ...args: string[]) => execute('git', ['-C', at, ...identity, ...args])
  const library = await folder('library', { 'lib.txt': 'lib' })
  const root = await folder('super', { 'a.txt': '1' })
  const nested = await folder('super/vendor', { 'v.txt': 'v' })
  for (const at of [library, root, nested]) {
    await git(at, 'init', '-q', '-b', 'main')
    if (at !== root) {
      await git(at, 'add', '-A')
      await git(at, 'commit', '-q', '-m', 'first')
    }
  }
  await writeFile(join(root, '.gitignore'), 'vendor\n')
  await git(root, 'submodule', '-q', 'add', library, 'lib')
  await git(root, 'add', '-A')
  await git(root, 'commit', '-q', '-m', 'first')
  const { id, output, untouched } = await run(
    'git submodule status; git -C lib log --oneline; git -C vendor status --short; echo 2 > lib/lib.txt; git -C lib -c user.name=a -c user.email=a@b commit -qam inside; git status --short | cat',
    [root],
  )
  expect(untouched).toBe(true)
  expect(output).toMatch(/ [0-9a-f]{40} lib/)
  expect(output).toContain(' M lib')
  expect(await changed(id)).toEqual([`${root} modified lib/lib.txt`])
  const { commits } = await bench.client.call('changeset.get', { id })
  expect(commits).toMatchObject([{ root, submodule: 'lib', ref: 'refs/heads/main' }])
  await bench.client.call('changeset.apply', { id, all: true })
  // The submodule's own repository has them, where nothing but our ref points to them.
  const kept = `refs/orangery/${id}/heads/main`
  const log = await git(join(root, 'lib'), 'log', '--format=%s', kept)
  expect(log.stdout).toBe('inside\nfirst\n')
  expect((await git(join(root, 'lib'), 'log', '--format=%s', '--branches')).stdout).toBe('first\n')
})

/** A repository with a submodule that has one of its own, and one whose commits are nowhere on this machine. */
async function makeSuper(name: string): Promise<string> {
  const identity = ['-c', 'user.name=u', '-c', 'user.email=u@v', '-c', 'protocol.file.allow=always']
  const git = (at: string, ...args: string[]) => execute('git', ['-C', at, ...identity, ...args])
  const commit = async (at: string) => {
    await git(at, 'add', '-A')
    await git(at, 'commit', '-q', '-m', 'first')
  }
  const [inner, library, gone, root] = [
    await folder(`${name}-inner`, { 'inner.txt': 'inner\n' }),
    await folder(`${name}-library`, { 'lib.txt': 'lib\n' }),
    await folder(`${name}-gone`, { 'gone.txt': 'gone\n' }),
    await folder(name, { 'a.txt': '1\n' }),
  ]
  for (const at of [inner, library, gone, root]) await git(at, 'init', '-q', '-b', 'main')
  await commit(inner)
  await commit(gone)
  await git(library, 'submodule', '-q', 'add', inner, 'inner')
  await commit(library)
  await git(root, 'submodule', '-q', 'add', library, 'lib')
  await git(root, 'submodule', '-q', 'add', gone, 'gone')
  await git(root, 'submodule', '-q', 'update', '--init', '--recursive')
  await commit(root)
  await rm(join(root, '.git', 'modules', 'gone'), { recursive: true })
  await rm(join(root, 'gone'), { recursive: true })
  return root
}

test('a worktree sandbox has the submodules of its commit, commits in them, and lands in their files', async () => {
  const root = await makeSuper('submodules')
  const { notes, tree_path: tree } = await bench.client.call('worktree.create', {
    repo: root,
    name: 'modules',
  })
  expect(notes.join()).toContain('not on this machine: gone')
  expect(await readFile(join(tree, 'lib', 'inner', 'inner.txt'), 'utf8')).toBe('inner\n')
  expect((await execute('git', ['-C', tree, 'submodule', 'status'])).stdout).toMatch(/^ [0-9a-f]{40} lib/m)
  const before = await fingerprint(join(root, '.git', 'modules'))
  const script = `
    git status --short; git submodule status --recursive | cut -c1; cat lib/lib.txt lib/inner/inner.txt
    echo changed > lib/lib.txt; echo 2 > a.txt
    git -C lib -c user.name=a -c user.email=a@b commit -qam inside && git -C lib log --format=%s | cat`
  const id = await bench.spawn(script, { worktree: 'modules', roots: [root] })
  const ended = await bench.ended(id)
  expect(await words(id)).toBe('-| | |lib|inner|inside|first|')
  expect(ended).toMatchObject({ status: 'completed' })
  expect(await fingerprint(join(root, '.git', 'modules'))).toBe(before)
  expect(await changed(id)).toEqual([`${tree} modified a.txt`, `${tree} modified lib/lib.txt`])

  const landed = await bench.client.call('agent.land', { id, all: true, how: 'squash' })
  expect(landed).toMatchObject({ landed: true, notes: [expect.stringContaining('lib/lib.txt')] })
  expect(await readFile(join(tree, 'lib', 'lib.txt'), 'utf8')).toBe('changed\n')
  const git = async (...args: string[]) => (await execute('git', ['-C', tree, ...args])).stdout
  // The submodule is still one in the commit, and what landed in it waits in its own checkout.
  expect(await git('ls-tree', 'HEAD', 'lib')).toMatch(/^160000 commit/)
  expect(await git('show', 'HEAD:a.txt')).toBe('2\n')
  expect(await git('-C', 'lib', 'status', '--short')).toBe(' M lib.txt\n')
  // What was committed in it is in the user's repository of the submodule.
  const user = join(root, '.git', 'modules', 'lib')
  const { stdout } = await execute('git', [
    '--git-dir',
    user,
    'log',
    '--format=%s',
    `refs/orangery/${id}/HEAD`,
  ])
  expect(stdout).toBe('inside\nfirst\n')
  const after = await fingerprint(join(root, '.git', 'modules'))

  // It is at stake, and comes back with its tree.
  const remove = (force: boolean) =>
    bench.client.call('worktree.remove', { id: 'modules', near: root, force })
  await expect(remove(false)).rejects.toMatchObject({ exitCode: 77 })
  const { id: removed } = await remove(true)
  await bench.client.call('archive.restore', { id: removed })
  expect(await git('-C', 'lib', 'status', '--short')).toBe(' M lib.txt\n')
  expect(await fingerprint(join(root, '.git', 'modules'))).toBe(after)
})

/** What an agent did in a submodule, and made its project use. */
const inSubmodule =
  'git config --global user.name a; git config --global user.email a@b; echo changed > lib/lib.txt; echo n > lib/new.txt; git -C lib add .; git -C lib commit -qm inside; git commit -qam up'

test.each(['worktree', 'overlay'])(
  'a submodule goes along by the very command that a landing from strategy %s prints',
  async (kind) => {
    const root = await makeSuper(`along-${kind}`)
    const isWorktree = kind === 'worktree'
    const tree = isWorktree
      ? (await bench.client.call('worktree.create', { repo: root, name: 'along' })).tree_path
      : root
    const id = await bench.spawn(inSubmodule, { roots: [root], ...(isWorktree ? { worktree: 'along' } : {}) })
    await bench.ended(id)
    const { notes = [] } = isWorktree
      ? await bench.client.call('agent.land', { id, all: true, how: 'squash' })
      : await bench.client.call('changeset.apply', { id, all: true })
    const [command = ''] = notes.flatMap((note) => /^lib: [^]* landed: ([^]*)$/.exec(note)?.[1] ?? [])
    await execute('sh', ['-euc', command], { cwd: '/' })
    const git = async (...args: string[]) => (await execute('git', ['-C', tree, ...args])).stdout
    expect(await git('-C', 'lib', 'log', '--format=%s')).toBe('inside\nfirst\n')
    expect(await git('-C', 'lib', 'status', '--short')).toBe('')
    expect(await git('diff', '--cached', '--name-only')).toBe('lib\n')
  },
)

test('the name of a submodule leads nowhere: one with dots in it stays empty', async () => {
  const root = await makeSuper('named')
  const outside = join(bench.base, 'outside')
  await rename(join(root, '.git', 'modules', 'lib'), outside)
  const modules = await readFile(join(root, '.gitmodules'), 'utf8')
  await writeFile(join(root, '.gitmodules'), modules.replace('"lib"', '"../../../outside"'))
  await execute('git', [
    '-C',
    root,
    '-c',
    'user.name=u',
    '-c',
    'user.email=u@v',
    'commit',
    '-qm',
    'evil',
    '.gitmodules',
  ])
  const { notes, tree_path } = await bench.client.call('worktree.create', { repo: root, name: 'named' })
  expect(notes.join()).toMatch(/not on this machine: .*lib/)
  expect(await readdir(join(tree_path, 'lib'))).toEqual([])
})

test('uncommitted work of the user is not in a worktree sandbox, and every way to start one says so', async () => {
  const root = await folder('uncommitted', { 'a.txt': '1\n' })
  for (const args of [
    ['init', '-q', '-b', 'main'],
    ['add', '-A'],
    ['commit', '-q', '-m', 'first'],
  ])
    await execute('git', ['-C', root, '-c', 'user.name=u', '-c', 'user.email=u@v', ...args])
  await bench.client.call('worktree.create', { repo: root, name: 'uncommitted' })
  await writeFile(join(root, 'draft.txt'), 'draft')
  const said = `uncommitted work in ${root} is not in this tree: draft.txt`
  const started = await bench.client.call('agent.start', { worktree: 'uncommitted', near: root })
  expect(started.notes).toEqual([said])
  const input = { agent: 'shell', prompt: 'ls', roots: [root], worktree: 'uncommitted' }
  const { checks } = await bench.client.call('dispatch.preflight', input)
  expect(checks).toContainEqual(expect.objectContaining({ ok: true, detail: said }))
  const { id, notes } = await bench.client.call('dispatch.spawn', input)
  expect(notes).toEqual([said])
  await bench.ended(id)
  expect(await words(id)).toBe('a.txt|')
})

test('a linked worktree of the user commits inside, in its submodules too, and its repository stays as it is', async () => {
  const main = await makeSuper('main')
  const linked = join(bench.base, 'linked')
  const allowed = ['-c', 'protocol.file.allow=always']
  await execute('git', ['-C', main, 'worktree', 'add', '-q', linked])
  await execute('git', ['-C', linked, ...allowed, 'submodule', '-q', 'update', '--init', 'lib'])
  const before = await fingerprint(join(main, '.git'))
  const commit = 'git -c user.name=a -c user.email=a@b commit -qam'
  const { id, output } = await run(
    `echo 2 > a.txt; ${commit} Inside; cd lib && echo 2 > lib.txt && ${commit} Deeper; cd ..; git log --format=%s`,
    [linked],
  )
  expect(output).toContain('Inside')
  expect(await fingerprint(join(main, '.git'))).toBe(before)
  expect((await bench.client.call('agent.get', { id })).commits.map(({ subject }) => subject)).toEqual([
    'Inside',
    'Deeper',
  ])
  await bench.client.call('changeset.apply', { id, all: true })
  const refs = await execute('git', ['-C', main, 'for-each-ref', '--format=%(refname)', 'refs/orangery'])
  expect(refs.stdout.trim()).toBe(`refs/orangery/${id}/heads/linked`)
  const log = await execute('git', [
    '-C',
    join(linked, 'lib'),
    'log',
    '--format=%s',
    `refs/orangery/${id}/HEAD`,
  ])
  expect(log.stdout).toBe('Deeper\nfirst\n')
})

test('the clone strategy copies, keeps what links and modes there are, and lands the same way', async () => {
  const root = await folder('cloned', { 'a.txt': '1', 'b.txt': '2' })
  await writeFile(join(root, 'large'), randomBytes(4_000_000))
  await symlink('a.txt', join(root, 'link'))
  await chmod(join(root, 'b.txt'), 0o755)
  const { id, output, untouched } = await run(
    'ls -l b.txt link; echo 2 > a.txt; rm b.txt; echo 3 > c.txt',
    [root],
    {
      changeset: 'clone',
    },
  )
  expect(output).toMatch(/-rwxr-xr-x.*b\.txt/)
  expect(untouched).toBe(true)
  expect(await changed(id)).toEqual([
    `${root} added c.txt`,
    `${root} deleted b.txt`,
    `${root} modified a.txt`,
  ])
  const events: string[] = []
  for await (const { event } of bench.client.open('dispatch.events', { id, follow: false })) {
    if (event.type === 'WorkspaceReady') events.push(event.detail)
  }
  expect(events.join()).toMatch(
    /full copy of the folders, .*: takes time and disk for every file|copy-on-write clone/,
  )
  await bench.client.call('changeset.apply', { id, all: true })
  expect((await readdir(root)).sort()).toEqual(['a.txt', 'c.txt', 'large', 'link'])
  // What was only copied and not touched is neither read nor kept.
  const { repo_id: repoId } = await bench.client.call('agent.get', { id })
  const { stdout } = await execute('du', ['-sk', join(bench.dataDir, 'repos', repoId, 'objects.git')])
  expect(Number(stdout.split('\t')[0])).toBeLessThan(1_000)
})

test('roots inside each other and a data folder inside a root are refused, and nothing is made', async () => {
  const outer = await folder('outer')
  const inner = await folder('outer/inner')
  await expect(bench.spawn('true', { roots: [outer, inner] })).rejects.toMatchObject({
    exitCode: expect.toBeOneOf([65, 69]),
  })
  await expect(bench.spawn('true', { roots: [bench.base] })).rejects.toMatchObject({ exitCode: 69 })
})

test('an abandoned changeset is in the archive with all its work and can be brought back', async () => {
  const root = await folder('abandoned', { 'a.txt': '1' })
  const { id } = await run('echo precious > work.txt', [root])
  await bench.client.call('changeset.abandon', { id })
  const record = (await bench.client.call('archive.list', {})).find((each) => each.id === id)
  expect(record).toMatchObject({ kind: 'invocation', why: 'disposed' })
  const kept = Date.parse(record!.expires_at) - Date.parse(record!.archived_at)
  expect(kept).toBe(30 * 24 * 60 * 60 * 1000)
  await bench.client.call('archive.restore', { id: record!.id })
  const agent = (await bench.client.call('agent.list', { all: false })).find((each) => each.id === id)
  const mount = agent!.meta!.roots[0]!.mount
  expect(mount.kind === 'overlay' && (await readFile(join(mount.upper, 'work.txt'), 'utf8'))).toBe(
    'precious\n',
  )
})
