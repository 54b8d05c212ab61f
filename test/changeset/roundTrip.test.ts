import { createHash } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run } from '../../src/engine/base/process.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'

const all = { all: true, include_ignored: false }

/** Applies a change made by an agent and compares with what the same script does to a plain copy. */
async function roundTrip(bench: Bench, script: string, isCopy = false): Promise<void> {
  const before = await bench.snapshot()
  const twin = join(bench.folder, 'twin')
  await run('cp', ['-a', bench.root, twin])
  const { id } = await bench.dispatch(script, isCopy ? bench.copiedWorkspace() : bench.workspace())
  const direct = await run('sh', ['-ec', script], { cwd: twin })
  expect(direct.stderr.toString()).toBe('')
  const expected = await bench.snapshot(twin)
  expect(await bench.snapshot()).toBe(before)
  await bench.changesets.apply(id, all, 'test')
  expect(await bench.snapshot()).toBe(expected)
  await bench.changesets.undo(id, 'test')
  expect(await bench.snapshot()).toBe(before)
  await bench.changesets.apply(id, all, 'test')
  expect(await bench.snapshot()).toBe(expected)
}

const cases: readonly [name: string, setUp: string, script: string][] = [
  ['a rename', 'seq 100 > old', 'mv old new; echo more >> new'],
  ['a rename of a folder', 'mkdir -p a/b; seq 9 > a/b/c; seq 5 > a/d', 'mv a z'],
  [
    'folders that change places',
    'mkdir -p a/s b/s; echo 1 > a/f; echo 2 > b/f; echo 3 > a/s/g; echo 4 > b/s/g; touch -d 2000-01-01 a/f b/f a/s/g b/s/g',
    'mv a c; mv b a; mv c b',
  ],
  [
    'a folder that takes the place of another, with a part of that in it',
    'mkdir -p a/s b; echo 1 > a/f; echo 2 > b/f; echo 3 > a/s/g; echo 4 > b/own',
    'mv a c; mv b a; mv c/s a/s; rm -r c',
  ],
  ['a copy', 'seq 100 > old', 'cp old new'],
  ['a mode change', 'echo a > a; chmod 644 a; echo b > b; chmod 600 b', 'chmod 755 a; chmod 640 b'],
  [
    'links',
    'echo a > a; ln -s a l; ln -s gone m',
    'ln -sfn ./a l; rm m; ln -s sub/x n; mkdir sub; echo > sub/x',
  ],
  ['binaries', 'head -c 3000 /dev/zero > z', 'printf "\\001\\000\\377" > b; printf "\\000x" >> z'],
  ['empty folders and files', 'mkdir old; : > e', 'mkdir -p new/deep; rmdir old; : > f; rm e'],
  ['a file that becomes a folder', 'echo x > x', 'rm x; mkdir x; echo y > x/y'],
  ['a file that becomes an empty folder', 'echo x > x', 'rm x; mkdir x'],
  ['a folder that becomes a file', 'mkdir -p x/y; echo a > x/y/a; echo b > x/b', 'rm -r x; echo now > x'],
  ['a folder that becomes a link', 'mkdir -p x t; echo a > x/a', 'rm -r x; ln -s t x'],
  ['a link that becomes a folder', 'mkdir t; ln -s t x', 'rm x; mkdir x; echo a > x/a'],
  ['a link that becomes a file', 'echo t > t; ln -s t x', 'rm x; echo a > x'],
  ['a file that becomes a link', 'echo t > t; echo x > x', 'rm x; ln -s t x'],
  [
    'a folder deleted and made again',
    'mkdir -p d/e; echo 1 > d/1; echo 2 > d/e/2; echo 3 > d/3',
    'rm -r d; mkdir -p d/e; echo 3 > d/3; echo new > d/e/n',
  ],
  ['hard links', 'echo a > a', 'echo b > b; ln b c; ln a d'],
  ['modes of folders', 'mkdir -m 755 d; echo a > d/a', 'chmod 700 d; mkdir -m 711 n; echo b > n/b'],
  [
    'a missing last newline',
    'printf "a\\nb" > f; printf "a\\n" > g',
    'printf "a\\nb\\n" > f; printf "a" > g',
  ],
  [
    'names with newlines, quotes, backslashes and bytes that are not UTF-8',
    `printf x > "$(printf 'bad\\377name')"; mkdir "$(printf 'dir\\n\\"q')"`,
    `printf y > "$(printf 'bad\\377name')"; printf 1 > "$(printf 'dir\\n\\"q/a\\tb\\\\c')"; printf 2 > "$(printf '\\342\\202')"; : > -n; : > ' lead'`,
  ],
  [
    'names of 255 bytes',
    `: > "$(printf 'a%.0s' $(seq 255))"`,
    `echo x > "$(printf 'a%.0s' $(seq 255))"; echo y > "$(printf 'b%.0s' $(seq 255))"`,
  ],
  [
    'files nobody may read',
    'echo a > a',
    'chmod 0 a; echo b > b; chmod 0 b; mkdir d; echo c > d/c; chmod 0 d/c',
  ],
]

test.each([
  ['over the originals', false],
  ['in a copy of them', true],
])(
  'every kind of change that an agent makes %s survives the round trip to the byte, and back',
  async (_, isCopy) => {
    await using bench = await Bench.make()
    const inFolders = (scripts: readonly string[]) =>
      scripts.map((script, at) => `(cd ${at}; ${script})`).join('\n')
    await bench.user(`mkdir $(seq 0 ${cases.length - 1})\n${inFolders(cases.map(([, setUp]) => setUp))}`)
    await roundTrip(bench, inFolders(cases.map(([, , script]) => script)), isCopy)
  },
)

test('the unified diff is one that git apply accepts', async () => {
  await using bench = await Bench.make()
  await bench.user(
    `seq 40 > text; printf '\\000\\001' > bin; seq 30 > moved; mkdir d; echo x > d/x; echo t > swap; echo m > m; printf 'caf\\351\\n' > latin`,
  )
  const { id } = await bench.dispatch(
    `sed -i 's/^7$/seven/; s/^30$/thirty/' text; printf '\\000\\002\\n\\000' > bin; mv moved "to here"; rm -r d; echo file > d; rm swap; ln -s text swap; chmod +x m; printf 'caf\\351!\\n' > latin; printf n > "$(printf 'n\\377')"`,
  )
  const twin = join(bench.folder, 'twin')
  await run('cp', ['-a', bench.root, twin])
  const diff = await bench.changesets.diff(id, {})
  const bytes = diff.text_b64 === undefined ? Buffer.from(diff.text) : Buffer.from(diff.text_b64, 'base64')
  const applied = await run('git', ['apply', '--whitespace=nowarn', '-'], { cwd: twin, input: bytes })
  expect(applied.stderr.toString()).toBe('')
  await bench.changesets.apply(id, all, 'test')
  expect(await bench.snapshot(twin)).toBe(await bench.snapshot())
})

test.each([
  ['something else in it', 'mv l m; mkdir l; echo 1 > l/1'],
  ['the link itself in it', 'mv l m; mkdir l; mv m l/m'],
  ['another renamed file in it', 'mv l m; mkdir l; mv f l/f'],
])('a renamed link whose place becomes a folder with %s is told so that git takes it', async (_, script) => {
  await using bench = await Bench.make()
  await bench.user(
    'git init -q .; git config user.name U; git config user.email u@x; seq 30 > f; ln -s f l; git add .; git commit -qm first',
  )
  const { id } = await bench.dispatch(script)
  const { text } = await bench.changesets.diff(id, {})
  const mail = await bench.exported(id, 'patch')
  const taken = async (args: string[], input: Buffer | string) => {
    const cwd = join(bench.folder, args[0] ?? '')
    await run('git', ['clone', '-q', bench.root, cwd])
    await run('git', ['config', 'user.name', 'U'], { cwd })
    await run('git', ['config', 'user.email', 'u@x'], { cwd })
    expect((await run('git', args, { cwd, input })).stderr.toString()).toBe('')
    await run('rm', ['-rf', '.git'], { cwd })
    return await bench.snapshot(cwd)
  }
  const [applied, mailed] = [await taken(['apply', '-'], text), await taken(['am', '-q'], mail)]
  await bench.changesets.apply(id, all, 'test')
  await bench.user('rm -rf .git')
  expect([applied, mailed]).toEqual(Array(2).fill(await bench.snapshot()))
})

test.each([
  ['a file', 'echo file > d'],
  ['a link', 'ln -s k d'],
])('a folder with empty folders in it that becomes %s is told so that git takes it', async (_, script) => {
  await using bench = await Bench.make()
  await bench.user(
    `git init -q .; git config user.name U; git config user.email u@x; echo k > k; mkdir d; echo f > d/f; git add .; git commit -qm first
     mkdir -p d/e 'd/g/h "i"' other/empty; cp -a . ../twin; git clone -qc user.name=U -c user.email=u@x . ../clone`,
  )
  const { id } = await bench.dispatch(`rm -r d other; ${script}`)
  const [twin, clone] = [join(bench.folder, 'twin'), join(bench.folder, 'clone')]
  const taken = async (cwd: string, args: string[], input: Buffer | string) => {
    expect((await run('git', args, { cwd, input })).stderr.toString()).toBe('')
    await run('rm', ['-rf', '.git', 'other'], { cwd })
    return await bench.snapshot(cwd)
  }
  const applied = await taken(twin, ['apply', '-'], (await bench.changesets.diff(id, {})).text)
  // A checkout has no empty folders, and neither has an index.
  const mailed = await taken(clone, ['am', '-q'], await bench.exported(id, 'patch'))
  await bench.changesets.apply(id, all, 'test')
  await bench.user('rm -rf .git')
  expect([applied, mailed]).toEqual(Array(2).fill(await bench.snapshot()))
})

test('several roots make one changeset, each path under its root', async () => {
  await using bench = await Bench.make(['one', 'two'])
  await bench.user('echo a > f; echo b > ../two/f')
  const { id } = await bench.dispatch('echo A > f; echo B > ../two/f; echo C > ../two/g')
  // A link into another root stays within the roots, be it told from above or from beside; what lies between does not count.
  const linked = await bench.dispatch(
    `ln -s ../two/f beside; ln -s ${bench.roots[1]}/f above; ln -s ../twofold out; ln -s ../two/../x back; ln -s ../x/../two/f round; ln -s ../../../../../etc/passwd far`,
  )
  const { files: links } = await bench.changesets.get(linked.id)
  expect(links.filter(({ refused }) => refused === null).map(({ path }) => path)).toEqual(['above', 'beside'])
  const changeset = await bench.changesets.get(id)
  expect(changeset.roots).toEqual(bench.roots)
  expect(changeset.files.map((file) => [file.root, file.path])).toEqual([
    [bench.roots[0], 'f'],
    [bench.roots[1], 'f'],
    [bench.roots[1], 'g'],
  ])
  const { text } = await bench.changesets.diff(id, {})
  expect(text).toContain('--- a/one/f')
  expect(text).toContain('+++ b/two/g')
  const applied = await run('git', ['apply', '--check', '-'], { cwd: bench.folder, input: text })
  expect(applied.stderr.toString()).toBe('')
  await bench.changesets.apply(id, all, 'test')
  expect(await readFile(join(bench.roots[1] as string, 'g'), 'utf8')).toBe('C\n')
})

test('device nodes, sockets, pipes, links that leave and set-id bits never land', async () => {
  await using bench = await Bench.make()
  await bench.user('echo ok > ok; ln -s /etc out')
  const { id } = await bench.dispatch(
    `mkfifo pipe; ln -s /etc/passwd abs; ln -s ../../x up; ln -s out/passwd via; mkdir d; ln -s ../ok d/fine; ln -s ${bench.root}/ok whole
     echo s > suid; chmod 4755 suid; chmod 2755 ok
     ${process.execPath} -e "require('net').createServer().listen('sock', () => process.exit())"`,
  )
  const changeset = await bench.changesets.get(id)
  const refused = changeset.files.filter((file) => file.refused !== null).map((file) => file.path)
  expect(refused.toSorted()).toEqual(['abs', 'pipe', 'sock', 'up', 'via'])
  expect(changeset.dropped.map((each) => each.path).toSorted()).toEqual(['ok', 'suid'])
  const result = await bench.changesets.apply(id, { all: true, include_ignored: true }, 'test')
  expect(result.skipped.map((skip) => skip.path).toSorted()).toEqual(['abs', 'pipe', 'sock', 'up', 'via'])
  expect(result.state).toBe('applied')
  const after = await bench.snapshot()
  expect(after).toMatch(/^suid f 755 /m)
  expect(after).toMatch(/^d\/fine l /m)
  expect(after).toMatch(/^whole l /m)
  expect(after).not.toMatch(/^(abs|pipe|sock|up|via) /m)
})

test('sizes and hashes of both sides are told, and modes in full', async () => {
  await using bench = await Bench.make()
  await bench.user('printf one > f; chmod 640 f')
  const { id } = await bench.dispatch('printf two! > f')
  const sha = (text: string) => createHash('sha256').update(text).digest('hex')
  expect((await bench.changesets.get(id)).files[0]).toMatchObject({
    mode_before: '100640',
    mode_after: '100640',
    sha256_before: sha('one'),
    sha256_after: sha('two!'),
    size_before: 3,
    size_after: 4,
    hunks: [{ decision: null, insertions: 1, deletions: 1 }],
  })
})

test('an agent that changed nothing, or put everything back, has no changeset', async () => {
  await using bench = await Bench.make()
  await bench.user('echo a > a; mkdir d')
  const workspace = await bench.workspace()
  await bench.agent(workspace, 'touch a; chmod 600 a; chmod 644 a; touch d; cat a > /dev/null')
  expect(await bench.changesets.capture(workspace, { final: true })).toBeNull()
  await bench.agent(workspace, 'echo b > b')
  expect(await bench.changesets.capture(workspace, { final: false })).toMatchObject({ files: 1 })
  await bench.agent(workspace, 'rm b')
  expect(await bench.changesets.capture(workspace, { final: true })).toBeNull()
  expect(await bench.changesets.list()).toEqual([])
})

test('a copied workspace is compared with its original, without taking the user’s own edits for the agent’s', async () => {
  await using bench = await Bench.make()
  await bench.user(
    'mkdir d e; echo a > a; echo b > d/b; echo c > c; echo keep > keep; echo f > e/f; echo h > e/h',
  )
  const workspace = await bench.copiedWorkspace()
  await bench.user('echo mine > keep; echo later > later')
  await bench.agent(workspace, 'echo A > a; rm -r d; echo n > n; mv e g')
  await bench.changesets.capture(workspace, { final: true })
  const { files } = await bench.changesets.get(workspace.id)
  expect(files.map((file) => [file.path, file.change])).toEqual([
    ['a', 'modified'],
    ['d/b', 'deleted'],
    ['g/f', 'renamed'],
    ['g/h', 'renamed'],
    ['n', 'added'],
  ])
})

test('what is gone from a folder that the agent made anew lands also where the path is longer than the kernel takes', async () => {
  await using bench = await Bench.make()
  const down = `n=$(printf %0240d 0); i=0; while [ $i -lt 20 ]; do mkdir -p $n; cd -P $n; i=$((i+1)); done`
  await bench.user(`${down}; mkdir -p cut/inner; echo a > cut/a; echo i > cut/inner/i; echo k > kept`)
  const { id } = await bench.dispatch(`${down}; rm -r cut; mkdir cut; echo b > cut/b`)
  const { files } = await bench.changesets.get(id)
  expect(files.map(({ path, change }) => `${change} ${path.slice(path.indexOf('/cut/'))}`)).toEqual([
    'deleted /cut/a',
    'added /cut/b',
    'deleted /cut/inner/i',
  ])
  await bench.changesets.apply(id, { all: true, include_ignored: false }, 'test')
  await bench.user(`${down}; test "$(find . | sort | tr '\\n' ' ')" = '. ./cut ./cut/b ./kept '`)
})

test('a very deep tree, paths beyond what the kernel takes, and a sparse terabyte do not stop a capture', async () => {
  await using bench = await Bench.make()
  await mkdir(join(bench.root, 'x'))
  await writeFile(join(bench.root, 'x', 'y'), 'y')
  const { id } = await bench.dispatch(
    `i=0; while [ $i -lt 200 ]; do mkdir d; cd d; i=$((i+1)); done; echo end > end; cd ${bench.root}
     mkdir -p "$(printf "$(printf 'x%.0s' $(seq 100))/%.0s" $(seq 60))"; truncate -s 1T huge; truncate -s 64M sparse`,
  )
  const { files } = await bench.changesets.get(id)
  expect(files.find((file) => file.path === 'huge')?.refused).toContain('hole')
  expect(files.some((file) => file.path.endsWith('d/end'))).toBe(true)
  expect(files.some((file) => file.path.length > 6000)).toBe(true)
  await bench.changesets.apply(id, all, 'test')
  const blocks = await run('du', ['-k', 'sparse'], { cwd: bench.root })
  expect(Number(blocks.stdout.toString().split('\t')[0])).toBeLessThan(1024)
})
