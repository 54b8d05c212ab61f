import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'

test('at level 0 nothing runs in a worktree sandbox, since it could write the integration tree: 69, and nothing is made', async () => {
  using place = new Place('launcher')
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', place.folder, ...args], { env: place.env, encoding: 'utf8' }).trim()
  writeFileSync(join(place.home, '.gitconfig'), '[user]\nname = u\nemail = u@v\n')
  git('init', '-q', '-b', 'main')
  writeFileSync(join(place.folder, 'a.txt'), 'one\n')
  git('add', '-A')
  git('commit', '-q', '-m', 'first')
  const made = await place.orangery('worktree', 'create', '--repo', '.', '--name', 'feature', '--json')
  const { tree_path: tree } = JSON.parse(made.stdout) as { tree_path: string }
  const id = (await place.orangery('agent', 'start', '--worktree', 'feature')).stdout.trim()
  const before = git('for-each-ref')
  const attack = ['--', 'sh', '-c', `echo evil > '${tree}/evil'; : > ran`]
  for (const where of [
    ['--worktree', 'feature'],
    ['--invocation', id],
  ]) {
    const refused = await place.orangery('run', '-q', ...where, '--level', '0', ...attack)
    expect(refused).toMatchObject({
      code: 69,
      stderr: expect.stringMatching(
        /level 0 cannot keep the agent from writing the integration tree[^]*hint: .*level 1/,
      ),
    })
  }
  expect(readdirSync(tree)).not.toContain('evil')
  expect(git('for-each-ref')).toBe(before)
  const listed = JSON.parse((await place.orangery('agent', 'ls', '--all', '--json')).stdout) as {
    id: string
  }[]
  expect(listed.map((each) => each.id)).toEqual([id])

  // The controls: at level 1 the same runs and does not get there; at level 0 nothing else keeps it from there.
  const held = await place.orangery('run', '-q', '--invocation', id, '--level', '1', ...attack)
  expect(held.code, held.stderr).toBe(0)
  expect(existsSync(join(tree, 'evil'))).toBe(false)
  const bare = await place.orangery('run', '-q', '--level', '0', ...attack)
  expect(bare.code, bare.stderr).toBe(0)
  expect(existsSync(join(tree, 'evil'))).toBe(true)
})
