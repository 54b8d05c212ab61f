import { appendFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { git } from '../../src/engine/base/git.ts'
import { run } from '../../src/engine/base/process.ts'
import { gitText, Ground } from '../../src/engine/workspace/fixture.ts'
import {
  createWorktree,
  discardAgent,
  removeIntegration,
  restoreArchived,
  startAgent,
  stakesOf,
} from '../../src/engine/workspace/index.ts'

let ground: Ground
let [repo, canary] = ['', '']
beforeEach(async () => {
  ground = await Ground.make()
  canary = ground.path('canary')
  repo = await ground.repo('repo', { 'a.txt': 'one\n', '.gitattributes': '*.txt filter=x merge=x\n' })
})
afterEach(() => ground[Symbol.asyncDispose]())

const programs = () =>
  ['filter "x"', 'filter ""'].map(
    (section) => `[${section}]\n\tclean = "touch ${canary}; cat"\n\tsmudge = "touch ${canary}; cat"\n`,
  )
const include = async (condition: string) => {
  await writeFile(join(repo, '.git/more'), programs().join(''))
  await appendFile(join(repo, '.git/config'), `[includeIf "${condition}"]\n\tpath = more\n`)
}
const ran = () =>
  stat(canary).then(
    () => true,
    () => false,
  )

/** All that our git does in a checkout, and whether a program of the configuration ran meanwhile. */
async function everyStep(): Promise<void> {
  const { layout } = ground
  const worktree = await createWorktree({ layout, repo, name: 'feature' })
  expect(await ran()).toBe(false)
  await appendFile(join(worktree.tree_path, 'a.txt'), 'mine\n')
  const meta = await startAgent({ layout, worktree: 'feature' })
  await appendFile(join(meta.sandbox_path, 'a.txt'), 'mine\n')
  expect((await stakesOf(worktree)).uncommitted).toEqual(['a.txt'])
  await discardAgent(layout, meta.invocation_id)
  await restoreArchived(layout, meta.invocation_id)
  await discardAgent(layout, meta.invocation_id)
  await removeIntegration(layout, 'feature', { force: true })
  await restoreArchived(layout, worktree.worktree_id)
  expect(await ran()).toBe(false)
  // The control: the user's own git does run it there.
  await appendFile(join(worktree.tree_path, 'a.txt'), 'more\n')
  await run('git', ['-C', worktree.tree_path, 'add', 'a.txt'])
  expect(await ran()).toBe(true)
}

for (const condition of ['onbranch:agency/**', 'gitdir:**/worktrees/**', 'hasconfig:remote.*.url:**']) {
  test(`no filter that the configuration has only where ${condition.split(':')[0]} says so runs in our git`, async () => {
    await git(['-C', repo, 'config', 'remote.origin.url', 'https://example.org/x'])
    await include(condition)
    await everyStep()
  })
}

test('no filter of the configuration that each worktree has to itself runs in our git', async () => {
  await git(['-C', repo, 'config', 'extensions.worktreeConfig', 'true'])
  await writeFile(join(repo, '.git/config.worktree'), programs().join(''))
  await everyStep()
})

test('no filter without a name runs in our git', async () => {
  await writeFile(join(repo, '.gitattributes'), '*.txt filter=\n')
  await git(['-C', repo, 'commit', '-qam', 'Name none'])
  await appendFile(join(repo, '.git/config'), programs().join(''))
  await rm(canary, { force: true })
  await everyStep()
})

test('no program that checks signatures runs in our git', async () => {
  const { layout } = ground
  const worktree = await createWorktree({ layout, repo, name: 'feature' })
  const tree = worktree.tree_path
  await git(['-C', tree, 'commit', '-q', '--allow-empty', '-m', 'Signed'])
  const plain = await gitText(tree, 'cat-file', 'commit', 'HEAD')
  const signature = ['gpgsig -----BEGIN PGP SIGNATURE-----', ' ', ' x', ' -----END PGP SIGNATURE-----']
  const input = plain.replace(/^committer .*$/m, (line) => [line, ...signature].join('\n'))
  const hashed = await git(['hash-object', '-t', 'commit', '-w', '--stdin'], {
    cwd: tree,
    input: `${input}\n`,
  })
  await git(['-C', tree, 'update-ref', 'HEAD', hashed.toString().trim()])
  await writeFile(ground.path('verify'), `#!/bin/sh\ntouch ${canary}\n`, { mode: 0o755 })
  await git(['-C', repo, 'config', 'log.showSignature', 'true'])
  await git(['-C', repo, 'config', 'gpg.program', ground.path('verify')])
  expect((await stakesOf(worktree)).unmerged).toEqual([expect.stringContaining('Signed')])
  expect(await ran()).toBe(false)
  // The control: the user's own git does run it.
  await run('git', ['-C', tree, 'log', '-1', '--format=%h'])
  expect(await ran()).toBe(true)
})

test('no filter that a submodule is configured with runs in our git, and what was changed and committed there is named', async () => {
  const { layout } = ground
  const sub = await ground.repo('sub', { 'a.txt': 'one\n', '.gitattributes': '*.txt filter=x\n' })
  const add = ['-C', repo, '-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', sub, 'deep/sub']
  expect((await run('git', add)).code).toBe(0)
  await git(['-C', repo, 'commit', '-qm', 'With a submodule'])
  const worktree = await createWorktree({ layout, repo, name: 'feature' })
  const inside = join(worktree.tree_path, 'deep/sub')
  expect(await stakesOf(worktree)).toMatchObject({ uncommitted: [], unmerged: [] })
  for (const kind of ['clean', 'smudge', 'process'])
    await git(['-C', inside, 'config', `filter.x.${kind}`, `touch ${canary}; cat`])
  await git(['-C', inside, '-c', 'filter.x.process=', 'commit', '-q', '--allow-empty', '-m', 'Only here'])
  // Of the same size, so that git has to look into it.
  await writeFile(join(inside, 'a.txt'), 'two\n')
  await rm(canary, { force: true })
  const named = {
    uncommitted: ['deep/sub'],
    unmerged: [expect.stringMatching(/^deep\/sub: [0-9a-f]{7,} Only here$/)],
  }
  expect(await stakesOf(worktree)).toMatchObject(named)
  const refused = removeIntegration(layout, 'feature')
  await expect(refused).rejects.toMatchObject({
    kind: 'refused',
    message: expect.stringContaining('Only here'),
  })
  expect((await removeIntegration(layout, 'feature', { force: true })).stakes).toMatchObject(named)
  await restoreArchived(layout, worktree.worktree_id)
  expect(await ran()).toBe(false)
  // The control: the user's own git does run it there.
  await run('git', ['-C', worktree.tree_path, 'status'])
  expect(await ran()).toBe(true)
})
