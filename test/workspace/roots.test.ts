import { chmod, mkdir, mkdtemp, readFile, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
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
})

test('a worktree of a submodule-bearing repository says that its submodules are empty', async () => {
  const root = join(bench.base, 'super')
  const { notes } = await bench.client.call('worktree.create', { repo: root, name: 'modules' })
  expect(notes.join()).toContain('submodules are empty in this tree: lib')
})

test('a linked worktree of the user commits inside, and its repository stays as it is', async () => {
  const identity = ['-c', 'user.name=u', '-c', 'user.email=u@v']
  const main = await folder('main', { 'a.txt': '1' })
  const linked = join(bench.base, 'linked')
  for (const args of [
    ['init', '-q', '-b', 'main'],
    ['add', '-A'],
    ['commit', '-q', '-m', 'first'],
    ['worktree', 'add', '-q', linked],
  ]) {
    await execute('git', ['-C', main, ...identity, ...args])
  }
  const before = await fingerprint(join(main, '.git'))
  const { id, output } = await run(
    'echo 2 > a.txt; git -c user.name=a -c user.email=a@b commit -qam Inside; git log --format=%s',
    [linked],
  )
  expect(output).toContain('Inside')
  expect(await fingerprint(join(main, '.git'))).toBe(before)
  expect((await bench.client.call('agent.get', { id })).commits.map(({ subject }) => subject)).toEqual([
    'Inside',
  ])
  await bench.client.call('changeset.apply', { id, all: true })
  const refs = await execute('git', ['-C', main, 'for-each-ref', '--format=%(refname)', 'refs/orangery'])
  expect(refs.stdout.trim()).toBe(`refs/orangery/${id}/heads/linked`)
})

test('the clone strategy copies, keeps what links and modes there are, and lands the same way', async () => {
  const root = await folder('cloned', { 'a.txt': '1', 'b.txt': '2' })
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
    /full copy of the folders: takes time and disk for every file|copy-on-write clone/,
  )
  await bench.client.call('changeset.apply', { id, all: true })
  expect((await readdir(root)).sort()).toEqual(['a.txt', 'c.txt', 'link'])
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
