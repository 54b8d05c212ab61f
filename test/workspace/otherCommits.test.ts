import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { DispatchId, RepoId } from '../../src/shared/ids.ts'
import { git } from '../../src/engine/base/git.ts'
import { layout as layoutAt } from '../../src/engine/base/paths.ts'
import { Bench } from '../dispatch/harness.ts'

let bench: Bench
let second: string
beforeEach(async () => {
  bench = await Bench.create({ 'one.txt': 'old\n' })
  second = join(bench.base, 'second')
  await mkdir(join(second, 'below'), { recursive: true })
  await writeFile(join(second, 'two.txt'), 'old\n')
  await writeFile(join(second, 'below', 'three.txt'), 'old\n')
  await commitAll(join(second, 'below'))
  await writeFile(join(second, '.gitignore'), 'below/\n')
  await commitAll(second)
})
afterEach(() => bench[Symbol.asyncDispose]())

async function commitAll(folder: string): Promise<void> {
  await git(['init', '-q', '-b', 'main', folder])
  await git(['-C', folder, 'add', '-A'])
  await git(['-C', folder, 'commit', '-q', '-m', 'first'])
}

const committing = (folder: string, file: string, subject: string) =>
  `cd ${folder}; echo new > ${file}; git add -A; git commit -qm '${subject}'`

async function work(...parts: string[]) {
  const script = ['set -e; git config --global user.name u; git config --global user.email u@v', ...parts]
  const id = await bench.spawn(script.join('\n'), { roots: [bench.project, second] })
  expect(await bench.ended(id)).toMatchObject({ status: 'completed' })
  return id
}
const commitsOf = (id: string) => bench.client.call('agent.get', { id })

test('commits of every root are shown, those of the first root first, each with its repository and as a patch', async () => {
  await commitAll(bench.project)
  const below = join(second, 'below')
  const id = await work(
    committing(second, 'two.txt', 'In the second'),
    committing(second, 'more.txt', 'And one more'),
    committing(below, 'three.txt', 'Below the second'),
    committing(bench.project, 'one.txt', 'In the first'),
  )
  const { commits, missing } = await commitsOf(id)
  expect(commits.map(({ subject, repository }) => [subject, repository])).toEqual([
    ['In the first', undefined],
    ['In the second', second],
    ['And one more', second],
    ['Below the second', below],
  ])
  expect(missing).toEqual([])
  for (const { commit, subject } of commits) {
    const { text } = await bench.client.call('agent.commit', { id, commit: commit.slice(0, 12) })
    const file = { 'In the first': 'one', 'In the second': 'two', 'And one more': 'more' }[subject] ?? 'three'
    expect(text, subject).toContain(`+++ b/${file}.txt`)
  }
  // The user's own history is none of the agent's.
  const base = (await git(['-C', bench.project, 'rev-parse', 'HEAD'])).toString().trim()
  for (const other of ['f'.repeat(40), base]) {
    const unknown = bench.client.call('agent.commit', { id, commit: other })
    await expect(unknown).rejects.toMatchObject({ kind: 'not_found', hint: expect.stringContaining(id) })
  }
  // What a landing merges is the first root's alone.
  await bench.client.call('changeset.apply', { id, all: true })
  expect((await commitsOf(id)).commits.map(({ commit }) => commit)).toEqual(
    commits.map(({ commit }) => commit),
  )
})

test('where its record is torn each of them is shown once, and none of the user', async () => {
  await commitAll(bench.project)
  const id = await work(
    committing(bench.project, 'one.txt', 'In the first'),
    committing(second, 'two.txt', 'In the second'),
  )
  const entry = (await bench.client.call('agent.list', { all: true })).find((each) => each.id === id)
  await writeFile(layoutAt(bench.dataDir).invocationMeta(entry!.repo_id as RepoId, id as DispatchId), '{')
  const { commits } = await commitsOf(id)
  expect(commits.map(({ subject }) => subject).sort()).toEqual(['In the first', 'In the second'])
})

test('they are shown where the first root is no repository, those on no branch too, and a repository that is gone is named', async () => {
  const id = await work(
    committing(second, 'two.txt', 'Taken back'),
    'git reset -q --hard HEAD~1',
    committing(second, 'two.txt', 'Kept'),
  )
  const { commits } = await commitsOf(id)
  expect(commits.map(({ subject, on_no_branch: isLeft }) => [subject, isLeft === true])).toEqual(
    expect.arrayContaining([
      ['Taken back', true],
      ['Kept', false],
    ]),
  )
  expect(commits).toHaveLength(2)
  await rename(join(second, '.git'), join(second, 'away'))
  expect(await commitsOf(id)).toMatchObject({
    commits: [],
    missing: [{ path: second, why: expect.stringContaining('its commits cannot be read') }],
  })
})

test('who gives a sandbox up is told how many commits go with it and which, of all its roots', async () => {
  await commitAll(bench.project)
  const below = join(second, 'below')
  const make = () =>
    work(
      committing(bench.project, 'one.txt', 'In the first'),
      committing(second, 'two.txt', 'In the second'),
      committing(below, 'three.txt', 'Below the second'),
    )
  const isTold = {
    commits: 3,
    notes: expect.arrayContaining([
      expect.stringMatching(
        `^commits of the agent: \\w{7} In the first, \\w{7} In the second \\(in ${second}\\), \\w{7} Below the second \\(in ${below}\\)$`,
      ),
    ]),
  }
  expect(await bench.client.call('changeset.abandon', { id: await make() })).toMatchObject(isTold)
  expect(await bench.client.call('agent.discard', { id: await make() })).toMatchObject(isTold)
})

test('a commit that a branch of another root has by now is not told as lost', async () => {
  const id = await work(
    committing(second, 'two.txt', 'Taken over'),
    committing(join(second, 'below'), 'three.txt', 'Left behind'),
  )
  await bench.client.call('changeset.decide', { id, path: 'two.txt', verdict: 'approve' })
  await bench.client.call('changeset.apply', { id })
  const commit = (await commitsOf(id)).commits.find(({ subject }) => subject === 'Taken over')!.commit
  await git(['-C', second, 'branch', 'taken', commit])
  expect(await bench.client.call('changeset.abandon', { id })).toMatchObject({
    commits: 1,
    notes: [expect.stringMatching(/^commits of the agent: \w{7} Left behind/)],
  })
})
