import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'

/** A worktree sandbox in which an agent has had two turns, the second after its work was sent back. */
async function twoTurns(place: Place, first: string, second: string, decided: string | null = null) {
  const git = (folder: string, ...args: string[]) =>
    execFileSync('git', ['-C', folder, ...args], { env: place.env, encoding: 'utf8' }).trim()
  writeFileSync(join(place.home, '.gitconfig'), '[user]\nname = u\nemail = u@v\n')
  git(place.folder, 'init', '-q', '-b', 'main')
  writeFileSync(join(place.folder, 'a.txt'), 'one\n')
  git(place.folder, 'add', '-A')
  git(place.folder, 'commit', '-q', '-m', 'first')
  const json = async <T>(...words: string[]): Promise<T> => {
    const { stdout, stderr, code } = await place.orangery(...words, '--json')
    expect(code, stderr).toBe(0)
    return JSON.parse(stdout) as T
  }
  const { tree_path: tree } = await json<{ tree_path: string }>(
    'worktree',
    'create',
    '--repo',
    '.',
    '--name',
    'feature',
  )
  const id = (await place.orangery('agent', 'start', '--worktree', 'feature')).stdout.trim()
  const work = `set -e; if [ "$ORANGERY_TURN" = 2 ]; then ${second}; else ${first}; fi`
  expect(await place.orangery('run', '-q', '--invocation', id, '--', 'sh', '-c', work)).toMatchObject({
    code: 0,
  })
  if (decided !== null) {
    await json('changeset', 'decide', id, '--path', decided, 'approve')
    await json('changeset', 'apply', id)
  }
  const { dispatch } = await json<{ dispatch: string }>('changeset', 'rework', id, '--comment', 'take it out')
  expect((await place.orangery('dispatch', 'wait', dispatch)).code).toBe(0)
  const { commits } = await json<{ commits: { subject: string; on_no_branch?: boolean }[] }>(
    'agent',
    'show',
    id,
  )
  const told = commits.map(({ subject, on_no_branch: isLeft }) => `${subject}${isLeft ? ', on none' : ''}`)
  return { git, id, tree, told }
}

const secret = 'echo KEY > secret; git add -A; git commit -qm Secret'
const ways: Readonly<Record<string, readonly [first: string, second: string]>> = {
  'by a reset': [secret, 'git reset -q --hard HEAD~1; echo 2 > fine'],
  'by a reset, after one more on top of it': [
    secret,
    'git commit -q --allow-empty -m More; git reset -q --hard HEAD~2; echo 2 > fine',
  ],
  'by going back to its branch': [`git checkout -q --detach; ${secret}`, 'git checkout -q -; echo 2 > fine'],
}
for (const [way, [first, second]] of Object.entries(ways))
  test(`a commit that the agent took back in its next turn ${way} is told as on no branch and not merged`, async () => {
    using place = new Place('launcher')
    const { git, id, tree, told } = await twoTurns(place, first, second)
    expect(told).toContain('Secret, on none')
    expect(await place.orangery('agent', 'land', id, '--all', '--how', 'merge')).toMatchObject({ code: 0 })
    expect(git(tree, 'log', '--format=%s', '-2')).toMatch(/^Land .*\nfirst$/)
    expect(git(tree, 'status', '--porcelain')).toBe('')
    // Nothing that an agent committed is lost by that.
    expect(git(place.folder, 'log', '--format=%s', `--glob=refs/orangery/${id}`)).toContain('Secret')
  })

test('a commit that the agent put on another branch is not merged with the branch it took it from', async () => {
  using place = new Place('launcher')
  const second = 'git branch aside; git reset -q --hard HEAD~1; echo 2 > fine'
  const { git, id, tree, told } = await twoTurns(place, secret, second)
  expect(told).toEqual(['Secret'])
  expect(await place.orangery('agent', 'land', id, '--all', '--how', 'merge')).toMatchObject({ code: 0 })
  expect(git(tree, 'log', '--format=%s')).toMatch(/^Land .*\nfirst$/)
})

for (const [when, decided] of [
  ['', null],
  [', after part of it was applied', 'one'],
] as const)
  test(`a branch that the agent renamed to a name below its own comes along, and all of it lands${when}`, async () => {
    using place = new Place('launcher')
    const add = (name: string) => `echo 1 > ${name}; git add -A; git commit -qm ${name}`
    const { git, id, tree, told } = await twoTurns(
      place,
      `git checkout -q -b fix; ${add('one')}; echo 1 > rest`,
      `git branch -m fix fix/2; ${add('two')}`,
      decided,
    )
    expect(told).toEqual(['one', 'two'])
    expect(await place.orangery('agent', 'land', id, '--all', '--how', 'merge')).toMatchObject({ code: 0 })
    expect(git(tree, 'log', '--format=%s', 'HEAD^2')).toBe('two\none\nfirst')
  })
