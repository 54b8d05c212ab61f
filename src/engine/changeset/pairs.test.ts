import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { planApply } from './planApply.ts'
import { toText } from './bytePath.ts'
import { realDisk } from './disk.ts'
import { SavedManifests } from './saved.ts'
import { Bench } from './testing.ts'
import { readView } from './view.ts'

/** What there is to begin with, what the agent may make of it, and what the user may have done meanwhile. */
const beginnings = {
  'a file': {
    setUp: 'seq 20 > f; chmod 644 f',
    incoming: {
      'edits it': 'sed -i s/^3$/theirs/ f',
      'deletes it': 'rm f',
      'changes its mode': 'chmod 755 f',
      'makes it a link': 'rm f; ln -s ../target f',
      'makes it a folder': 'rm f; mkdir f; echo in > f/in',
    },
    local: {
      nothing: ':',
      'edited other lines': 'sed -i s/^17$/mine/ f',
      'edited the same line': 'sed -i s/^3$/mine/ f',
      'deleted it': 'rm f',
      'changed its mode': 'chmod 600 f',
      'made it a link': 'rm f; ln -s ../target f',
      'made it a folder': 'rm f; mkdir f; echo in > f/in',
    },
  },
  'a binary': {
    setUp: `printf 'a\\000b' > f`,
    incoming: { 'edits it': `printf 'a\\000theirs' > f`, 'deletes it': 'rm f' },
    local: {
      nothing: ':',
      'edited it': `printf 'mine\\000b' > f`,
      'made the same edit': `printf 'a\\000theirs' > f`,
    },
  },
  'a link': {
    setUp: 'ln -s ../target f',
    incoming: {
      'points it elsewhere': 'ln -sfn ../other f',
      'deletes it': 'rm f',
      'makes it a file': 'rm f; echo x > f',
    },
    local: {
      nothing: ':',
      'pointed it elsewhere': 'ln -sfn ../mine f',
      'pointed it to the same place': 'ln -sfn ../other f',
      'deleted it': 'rm f',
      'made it a file': 'rm f; echo mine > f',
    },
  },
  'a folder': {
    setUp: 'mkdir f; seq 9 > f/x',
    incoming: {
      'deletes it': 'rm -r f',
      'makes it a file': 'rm -r f; echo x > f',
      'changes its mode': 'chmod 700 f',
    },
    local: {
      nothing: ':',
      'added a file in it': 'echo mine > f/mine',
      'edited a file in it': 'echo mine > f/x',
      'deleted it': 'rm -r f',
      'made it a file': 'rm -r f; echo mine > f',
      'made it a link': 'mv f g; ln -s g f',
    },
  },
  nothing: {
    setUp: ':',
    incoming: {
      'adds a file': 'echo theirs > f',
      'adds a link': 'ln -s ../target f',
      'adds a folder': 'mkdir f',
    },
    local: {
      nothing: ':',
      'added another file': 'echo mine > f',
      'added the same file': 'echo theirs > f',
      'added a link': 'ln -s ../mine f',
      'added a folder': 'mkdir f',
    },
  },
  'a file in a folder': {
    setUp: 'mkdir d; seq 20 > d/f',
    incoming: {
      'edits it': 'sed -i s/^3$/theirs/ d/f',
      'deletes it': 'rm d/f',
      'adds another': 'echo x > d/g',
    },
    local: {
      'deleted the folder': 'rm -r d',
      'made the folder a link': 'mv d e; ln -s e d',
      'made the folder a file': 'rm -r d; echo > d',
    },
  },
} as const

type Outcome = 'lands' | 'merges' | 'there already' | 'conflict'
const document = join(import.meta.dirname, '..', '..', '..', 'docs', 'changeset-pairs.md')

async function documentedPairs(): Promise<Map<string, string>> {
  const rows = (await readFile(document, 'utf8')).split('\n').filter((line) => /^\| (a|nothing)/.test(line))
  return new Map(
    rows.map((row) => {
      const [beginning, incoming, local, outcome] = row
        .split('|')
        .map((cell) => cell.trim())
        .filter(Boolean)
      return [`${beginning} / ${incoming} / ${local}`, outcome ?? '']
    }),
  )
}

test('every pair of incoming and local change is in the document and does what it says', async () => {
  await using bench = await Bench.make()
  const pairs = Object.entries(beginnings).flatMap(([beginning, { setUp, incoming, local }]) =>
    Object.entries(incoming).flatMap(([does, script]) =>
      Object.entries(local).map(([did, own]) => ({
        key: `${beginning} / ${does} / ${did}`,
        setUp,
        script,
        own,
      })),
    ),
  )
  const inFolders = (scripts: readonly string[]) =>
    scripts.map((each, at) => `(cd ${at}; ${each})`).join('\n')
  await bench.user(`mkdir $(seq 0 ${pairs.length - 1})\n${inFolders(pairs.map((pair) => pair.setUp))}`)
  const { id } = await bench.dispatch(inFolders(pairs.map((pair) => pair.script)))
  await bench.user(inFolders(pairs.map((pair) => pair.own)))
  const record = bench.store.changesets.find(id)!
  const context = { layout: bench.layout, records: bench.store.changesets, disk: realDisk }
  const manifest = await new SavedManifests(bench.layout.changeset(record.repoId, id), realDisk).read(
    record.revision,
  )
  const view = await readView(bench.layout.objects(record.repoId), record.revision, manifest)
  const plan = await planApply(context, record, view, { all: true, includeIgnored: false })

  const outcomes = new Map<string, Outcome>(pairs.map((pair) => [pair.key, 'there already']))
  const note = (path: string, outcome: Outcome) =>
    outcomes.set(pairs[Number(path.split('/')[0])]!.key, outcome)
  for (const step of plan.steps) note(toText(step.path), 'lands')
  for (const path of plan.merged) note(path, 'merges')
  for (const conflict of plan.conflicts) note(conflict.path, 'conflict')
  expect(Object.fromEntries(outcomes)).toEqual(Object.fromEntries(await documentedPairs()))

  // Nothing was written to find that out, and nothing is while one conflict stands.
  const before = await bench.snapshot()
  await expect(
    bench.changesets.apply(id, { all: true, include_ignored: false }, 'test'),
  ).rejects.toMatchObject({
    code: 'changeset.conflict',
    kind: 'busy',
  })
  expect(await bench.snapshot()).toBe(before)
})
