import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'

function makeRepository(folder: string, remote: string | null): string {
  const git = (...args: string[]) => execFileSync('git', ['-C', folder, ...args])
  mkdirSync(folder)
  git('init', '-q')
  git('-c', 'user.name=t', '-c', 'user.email=t@example.org', 'commit', '-q', '--allow-empty', '-m', 'first')
  if (remote !== null) git('remote', 'add', 'origin', remote)
  return folder
}

test('a preset is said as it is granted: for the worktree or the sandbox that the agent runs in, not for the folder of who asks', async () => {
  using place = new Place()
  const work = makeRepository(join(place.home, 'a'), 'https://a.example/a.git')
  const other = makeRepository(join(place.home, 'b'), 'https://b.example/b.git')
  const bare = makeRepository(join(place.home, 'c'), null)
  const idOf = async (...args: string[]) => {
    const { stdout, stderr } = await place.orangery(...args)
    expect(stdout, stderr).not.toBe('')
    return stdout.trim()
  }
  const worktree = await idOf('worktree', 'create', '--repo', work, '--name', 'w')
  const sandbox = async () => ['--invocation', await idOf('agent', 'start', '--worktree', worktree)]
  const rest = ['--allow-host', '@git', '--', 'true']
  const said = /^orangery: @git means a\.example:443$/m
  for (const cwd of [other, bare]) {
    for (const where of [['--worktree', worktree], await sandbox()]) {
      const ran = await place.orangeryWith({ cwd }, 'run', '-q', ...where, ...rest)
      expect(ran.stderr).toMatch(said)
      expect(ran).toMatchObject({ code: 0, stderr: expect.not.stringContaining('b.example') })
    }
    const started = ['dispatch', 'spawn', '--wait', '--worktree', worktree]
    expect((await place.orangeryWith({ cwd }, ...started, ...rest)).stderr).toMatch(said)
  }
  // The control: in that folder it means that folder's.
  const own = await place.orangeryWith({ cwd: other }, 'run', '-q', ...rest)
  expect(own).toMatchObject({ code: 0, stderr: expect.stringContaining('@git means b.example:443') })
})

test('a preset is said as it is granted to the next turn: as it means by then', async () => {
  using place = new Place()
  const work = makeRepository(join(place.home, 'a'), 'https://a.example/a.git')
  const run = ['run', '-q', '--allow-host', '@git', '--', 'sh', '-c', 'date +%N > new']
  const first = await place.orangeryWith({ cwd: work }, ...run)
  expect(first).toMatchObject({ code: 0, stderr: expect.stringContaining('@git means a.example:443') })
  const [{ id }] = JSON.parse((await place.orangery('changeset', 'list', '--json')).stdout) as [
    { id: string },
  ]
  execFileSync('git', ['-C', work, 'remote', 'set-url', 'origin', 'https://b.example/a.git'])
  const again = await place.orangery('changeset', 'rework', id, '--comment', 'once more')
  expect(again).toMatchObject({ code: 0, stderr: expect.stringContaining('@git means b.example:443') })
  expect((await place.orangery('dispatch', 'wait', again.stdout.trim())).code).toBe(0)
  // Refused as before, with nothing said of what it would have opened.
  expect(await place.orangery('changeset', 'abandon', id)).toMatchObject({ code: 0 })
  const late = await place.orangery('changeset', 'rework', id, '--comment', 'too late')
  expect(late).toMatchObject({ code: 75, stderr: expect.not.stringContaining('means') })
})
