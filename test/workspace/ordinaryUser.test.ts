import { chmod, chown, mkdir, mkdtemp, readFile, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { run } from '../../src/engine/base/process.ts'
import { removeTree } from '../dispatch/removeTree.ts'

/** The same way as an ordinary user: where the tests run as root, another identity is put on. */
const uid = process.getuid?.() === 0 ? 1000 : process.getuid!()
let base: string
beforeAll(async () => {
  base = await mkdtemp('/var/tmp/orangery-user-')
  await mkdir(join(base, 'repo'))
  await writeFile(join(base, 'repo', 'a.txt'), 'one\n')
  for (const path of [base, join(base, 'repo'), join(base, 'repo', 'a.txt')]) await chown(path, uid, uid)
})
afterAll(() => removeTree(base))

async function as(file: string, args: readonly string[], cwd = join(base, 'repo')) {
  const identity =
    process.getuid?.() === 0 ? ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups'] : ['env']
  const [first, ...rest] = [...identity, file, ...args] as [string, ...string[]]
  const env = { PATH: process.env['PATH']!, HOME: base, ORANGERY_DATA_DIR: join(base, 'data') }
  const result = await run(first, rest, { cwd, env })
  return { code: result.code, stdout: result.stdout.toString().trim(), stderr: result.stderr.toString() }
}
const orangery = (...args: string[]) =>
  as(process.execPath, [join(import.meta.dirname, '..', '..', 'src', 'cli', 'index.ts'), ...args])

test('an ordinary user takes a worktree agent from its start to its landing', async () => {
  const identity = ['-c', 'user.name=u', '-c', 'user.email=u@v']
  for (const args of [
    ['init', '-q', '-b', 'main'],
    ['add', '-A'],
    ['commit', '-q', '-m', 'first'],
  ]) {
    expect((await as('git', [...identity, ...args])).code).toBe(0)
  }
  expect(await orangery('worktree', 'create', '--repo', '.', '--name', 'feature')).toMatchObject({ code: 0 })
  const { stdout: id } = await orangery('agent', 'start', '--worktree', 'feature', '--name', 'arch')
  expect(id).toMatch(/^\d{14}-[0-9a-f]{4}$/)
  const script =
    'echo two > a.txt; mkdir locked; echo kept > locked/f; git add a.txt; git -c user.name=a -c user.email=a@b commit -qm Inside; chmod 000 locked; echo closed > unreadable; chmod 000 unreadable'
  expect(await orangery('run', '--invocation', id, '--', 'sh', '-c', script)).toMatchObject({ code: 0 })
  const shown = JSON.parse((await orangery('agent', 'show', id, '--json')).stdout) as {
    commits: { subject: string }[]
  }
  expect(shown.commits.map(({ subject }) => subject)).toEqual(['Inside'])
  const landed = await orangery('agent', 'land', id, '--all', '--how', 'merge', '--json')
  expect(landed).toMatchObject({ code: 0 })
  const { tree } = JSON.parse(landed.stdout) as { tree: string }
  expect((await as('git', ['log', '--topo-order', '--format=%s', '-2'], tree)).stdout).toBe(
    'Merge arch\nInside',
  )
  const committed = await as('git', ['show', 'HEAD:locked/f', 'HEAD:unreadable'], tree)
  expect(committed.stdout).toBe('kept\nclosed')
  const list = JSON.parse((await orangery('agent', 'ls', '--json')).stdout) as unknown[]
  expect(list).toEqual([])
})

test('a worktree with files that nobody can open is removed into the archive with all of them', async () => {
  const made = await orangery('worktree', 'create', '--repo', '.', '--name', 'closed', '--json')
  const { worktree_id: id, tree_path: tree } = JSON.parse(made.stdout) as {
    worktree_id: string
    tree_path: string
  }
  const script = 'echo x > file; chmod 000 file; mkdir folder; echo y > folder/y; chmod 000 folder'
  expect((await as('sh', ['-c', script], tree)).code).toBe(0)
  const refused = await orangery('worktree', 'rm', 'closed')
  expect(refused.code).toBe(77)
  expect(refused.stderr).toContain('2 uncommitted files (file, folder/y)')
  expect(await orangery('worktree', 'rm', 'closed', '--force')).toMatchObject({ code: 0 })
  const kept = await as('git', [
    'show',
    ...['file', 'folder/y'].map((path) => `refs/orangery/archive/${id}:${path}`),
  ])
  expect(kept.stdout).toBe('x\ny')
})

test('a tree whose folders are closed to writing goes to the archive, comes back so, and goes when its time is over', async () => {
  const made = await orangery('worktree', 'create', '--repo', '.', '--name', 'shut', '--json')
  const { worktree_id: id, tree_path: tree } = JSON.parse(made.stdout) as {
    worktree_id: string
    tree_path: string
  }
  const { stdout: agent } = await orangery('agent', 'start', '--worktree', 'shut')
  const sandbox = join(dirname(tree), '..', '..', 'sandboxes', agent, 'tree')
  const shut = 'mkdir -p d/e; echo x > d/e/x; chmod 555 d/e d .'
  for (const each of [tree, sandbox]) expect((await as('sh', ['-c', shut], each)).code).toBe(0)
  const ends = [
    ['agent', 'discard', agent],
    ['agent', 'restore', agent],
    ['agent', 'discard', agent],
    ['worktree', 'rm', 'shut', '--force'],
    ['worktree', 'restore', id],
  ]
  for (const words of ends) expect(await orangery(...words), words.join(' ')).toMatchObject({ code: 0 })
  for (const each of [tree, join(tree, 'd/e')]) expect((await stat(each)).mode & 0o777).toBe(0o555)
  expect(await orangery('worktree', 'rm', 'shut', '--force')).toMatchObject({ code: 0 })
  for (const each of [agent, id]) {
    const record = join(base, 'data/archive', each, 'record.json')
    const over = (await readFile(record, 'utf8')).replace(
      /("expires_at": ")\d+/,
      (_all, key: string) => `${key}2000`,
    )
    await writeFile(record, over)
  }
  const left = JSON.parse((await orangery('agent', 'archive', '--json')).stdout) as { id: string }[]
  expect(left.map((each) => each.id)).not.toEqual(expect.arrayContaining([agent]))
  expect(left.map((each) => each.id)).not.toEqual(expect.arrayContaining([id]))
})

test('the command line answers with the exit codes of the contract', async () => {
  expect((await orangery('agent', 'start', '--worktree', 'nobody')).code).toBe(66)
  expect((await orangery('agent', 'start', '--worktree', join(base, 'repo'))).code).toBe(65)
  expect((await orangery('agent', 'show', 'arch')).code).toBe(66)
  expect((await orangery('agent', 'start')).code).toBe(64)
  expect((await orangery('worktree', 'create', '--repo', '.', '--name', 'feature')).code).toBe(73)
  expect((await orangery('worktree', 'create', '--repo', '.', '--name', '../x')).code).toBe(65)
  expect((await orangery('worktree', 'create', '--repo', '/nowhere', '--name', 'x')).code).toBe(65)
})

test('what cannot be made for want of a permission is told as that, with a way out, and leaves nothing behind', async () => {
  const repo = join(base, 'closed')
  const identity = ['-c', 'user.name=u', '-c', 'user.email=u@v']
  await as('git', ['init', '-q', '-b', 'main', repo])
  await as('git', ['-C', repo, ...identity, 'commit', '-q', '--allow-empty', '-m', 'first'])
  const made = await orangery('worktree', 'create', '--repo', repo, '--name', 'closed', '--json')
  const { tree_path: tree, worktree_id: id } = JSON.parse(made.stdout) as Record<string, string>
  expect(await orangery('agent', 'start', '--worktree', id!)).toMatchObject({ code: 0 })
  const refs = async () => (await as('git', ['-C', repo, 'for-each-ref'])).stdout
  const before = await refs()
  const closed = async (folder: string, ...args: string[]) => {
    await chmod(folder, 0o500)
    const result = await orangery(...args)
    await chmod(folder, 0o700)
    const told = /^orangery: .*permission denied.*\n\s*hint: Make that folder writable/i
    expect(result).toMatchObject({ code: 73, stderr: expect.stringMatching(told) as unknown })
    expect(await refs()).toBe(before)
  }
  await closed(join(tree!, '../../../sandboxes'), 'agent', 'start', '--worktree', id!)
  const branches = join(repo, '.git', 'refs', 'heads', 'agency')
  await closed(branches, 'worktree', 'create', '--repo', repo, '--name', 'other')
})
