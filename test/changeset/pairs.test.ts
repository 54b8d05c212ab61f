import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { changeKinds } from '../../src/shared/changeset.ts'
import { planApply } from '../../src/engine/changeset/apply/planApply.ts'
import { toText } from '../../src/engine/changeset/bytePath.ts'
import { realDisk } from '../../src/engine/changeset/disk.ts'
import { PackWriter } from '../../src/engine/changeset/objects/packWriter.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'
import { readView } from '../../src/engine/changeset/review/view.ts'

/** What there is to begin with, what the agent may make of it, and what the user may have done meanwhile. */
const beginnings = {
  'a file': {
    setUp: 'lines 3 17 > f; chmod 644 f',
    incoming: {
      'edits it': 'lines theirs 17 > f',
      'edits it and its mode': 'lines theirs 17 > f; chmod 755 f',
      'deletes it': 'rm f',
      'changes its mode': 'chmod 755 f',
      'makes it unreadable': 'chmod 000 f',
      'renames it': 'mv f g',
      'renames and edits it': 'mv f g; lines theirs 17 > g',
      'copies it': 'cp f g',
      'links it': 'ln f g',
      'makes it a binary': `printf 'a\\000theirs' > f`,
      'makes it a link': 'rm f; ln -s ../target$at f',
      'makes it a folder': 'rm f; mkdir f; echo in > f/in',
      'makes it an empty folder': 'rm f; mkdir f',
    },
    local: {
      nothing: ':',
      'edited other lines': 'lines 3 mine > f',
      'edited the same line': 'lines mine 17 > f',
      'made the same edit': 'lines theirs 17 > f',
      'deleted it': 'rm f',
      'changed its mode': 'chmod 600 f',
      'made the same change of mode': 'chmod 755 f',
      'renamed it': 'mv f h',
      'renamed it to the same name': 'mv f g',
      'added a file at the new name': 'echo mine > g',
      'made it a binary': `printf 'a\\000mine' > f`,
      'made it a link': 'rm f; ln -s ../target$at f',
      'made it a folder': 'rm f; mkdir f; echo in > f/in',
      'made it an empty folder': 'rm f; mkdir f',
    },
  },
  'a binary': {
    setUp: `printf "a\\000b$at" > f; chmod 644 f`,
    incoming: {
      'edits it': `printf 'a\\000theirs' > f`,
      'deletes it': 'rm f',
      'changes its mode': 'chmod 755 f',
      'renames it': 'mv f g',
      'makes it a text': 'echo theirs > f',
    },
    local: {
      nothing: ':',
      'edited it': `printf 'mine\\000b' > f`,
      'made the same edit': `printf 'a\\000theirs' > f`,
      'deleted it': 'rm f',
      'changed its mode': 'chmod 600 f',
      'made it a text': 'echo mine > f',
    },
  },
  'a sparse file': {
    setUp: 'truncate -s 1M f',
    incoming: { 'writes into it': 'printf theirs | dd of=f conv=notrunc status=none', 'deletes it': 'rm f' },
    local: {
      nothing: ':',
      'wrote elsewhere in it': 'printf mine | dd of=f bs=1 seek=500000 conv=notrunc status=none',
      'made the same edit': 'printf theirs | dd of=f conv=notrunc status=none',
      'deleted it': 'rm f',
    },
  },
  'two hard links': {
    setUp: 'lines 3 17 > f; ln f g',
    incoming: { 'edits one': 'lines theirs 17 > f', 'deletes one': 'rm f' },
    local: {
      nothing: ':',
      'edited both': 'lines 3 mine > f',
      'edited the same line of both': 'lines mine 17 > f',
      'deleted it': 'rm f',
    },
  },
  'a name that is no UTF-8': {
    setUp: `lines 3 17 > "$n"`,
    incoming: {
      'edits it': `lines theirs 17 > "$n"`,
      'deletes it': `rm "$n"`,
      'renames it': `mv "$n" "$m"`,
    },
    local: {
      nothing: ':',
      'edited other lines': `lines 3 mine > "$n"`,
      'edited the same line': `lines mine 17 > "$n"`,
      'edited one that looks alike': `echo mine > "$l"`,
      'deleted it': `rm "$n"`,
    },
  },
  'a link': {
    setUp: 'ln -s ../target$at f',
    incoming: {
      'points it elsewhere': 'ln -sfn ../other$at f',
      'deletes it': 'rm f',
      'renames it': 'mv f g',
      'makes it a file': 'rm f; echo x > f',
      'makes it a folder': 'rm f; mkdir f; echo in > f/in',
    },
    local: {
      nothing: ':',
      'pointed it elsewhere': 'ln -sfn ../mine$at f',
      'pointed it to the same place': 'ln -sfn ../other$at f',
      'deleted it': 'rm f',
      'renamed it': 'mv f h',
      'made it a file': 'rm f; echo mine > f',
      'made it the same file': 'rm f; echo x > f',
      'made it a folder': 'rm f; mkdir f; echo in > f/in',
    },
  },
  'a folder': {
    setUp: 'mkdir f; lines 3 17 > f/x',
    incoming: {
      'deletes it': 'rm -r f',
      'makes it anew': 'rm -r f; mkdir f; echo new > f/new',
      'makes it a file': 'rm -r f; echo x > f',
      'makes it a link': 'rm -r f; ln -s ../target$at f',
      'changes its mode': 'chmod 700 f',
      'renames it': 'mv f g',
      'empties it': 'rm f/x',
    },
    local: {
      nothing: ':',
      'added a file in it': 'echo mine > f/mine',
      'edited a file in it': 'echo mine > f/x',
      'deleted it': 'rm -r f',
      'renamed it': 'mv f h',
      'changed its mode': 'chmod 711 f',
      'made it a file': 'rm -r f; echo mine > f',
      'made it a link': 'mv f g; ln -s g f',
    },
  },
  'an empty folder': {
    setUp: 'mkdir f',
    incoming: {
      'deletes it': 'rmdir f',
      'makes it a file': 'rmdir f; echo x > f',
      'makes it a link': 'rmdir f; ln -s ../target$at f',
      'adds a file in it': 'echo theirs > f/x',
    },
    local: {
      nothing: ':',
      'added a file in it': 'echo mine > f/x',
      'deleted it': 'rmdir f',
      'made it a file': 'rmdir f; echo mine > f',
      'made it a link': 'rmdir f; ln -s ../target$at f',
    },
  },
  nothing: {
    setUp: ':',
    incoming: {
      'adds a file': 'echo theirs > f',
      'adds a binary': `printf 'a\\000theirs' > f`,
      'adds a link': 'ln -s ../target$at f',
      'adds a folder': 'mkdir f',
      'adds a folder with a file': 'mkdir f; echo theirs > f/x',
    },
    local: {
      nothing: ':',
      'added another file': 'echo mine > f',
      'added the same file': 'echo theirs > f',
      'added another binary': `printf 'a\\000mine' > f`,
      'added a link': 'ln -s ../mine$at f',
      'added the same link': 'ln -s ../target$at f',
      'added a folder': 'mkdir f',
      'added a folder with another file': 'mkdir f; echo mine > f/x',
    },
  },
  'a file in a folder': {
    setUp: 'mkdir d; lines 3 17 > d/f',
    incoming: {
      'edits it': 'lines theirs 17 > d/f',
      'deletes it': 'rm d/f',
      'adds another': 'echo x > d/g',
      'moves it out': 'mv d/f f',
    },
    local: {
      nothing: ':',
      'deleted the folder': 'rm -r d',
      'renamed the folder': 'mv d e',
      'made the folder a link': 'mv d e; ln -s e d',
      'made the folder a file': 'rm -r d; echo > d',
    },
  },
} as const

// Without a process of its own for each: there are hundreds.
// No two pairs have a line in common: git must not take a file of one for a renamed file of another.
const words = `lines() { printf "$at of %s\\n" 1 2 "$1" 4 5 6 7 8 9 10 11 12 13 14 15 16 "$2" 18 19 20; }
n="$(printf 'n\\377')"; l="$(printf 'n\\376')"; m="$(printf 'm\\376')"`

type Outcome = 'lands' | 'merges' | 'there already' | 'conflict'
const document = join(import.meta.dirname, '..', '..', 'docs', 'changeset-pairs.md')

async function documentedPairs(): Promise<Map<string, string>> {
  const rows = (await readFile(document, 'utf8'))
    .split('\n')
    .filter((line) => /^\| (an? |two |nothing)/.test(line))
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
    [words, ...scripts.map((each, at) => `cd ${at}; at=${at}; ${each}; cd ..`)].join('\n')
  await bench.user(`mkdir $(seq 0 ${pairs.length - 1})\n${inFolders(pairs.map((pair) => pair.setUp))}`)
  const { id } = await bench.dispatch(inFolders(pairs.map((pair) => pair.script)))
  await bench.user(inFolders(pairs.map((pair) => pair.own)))
  const record = bench.store.changesets.find(id)!
  const context = { layout: bench.layout, records: bench.store.changesets, disk: realDisk }
  const manifest = await bench.manifest(id)
  const view = await readView(bench.layout.objects(record.repoId), record.revision, manifest)
  // No kind of change that a capture tells of is without its row.
  expect(new Set(view.files.map(({ change }) => change))).toEqual(new Set(changeKinds))
  const folderOf = (path: string) => path.split('/')[0]
  for (const { entry, from } of view.files)
    if (from !== null) expect(folderOf(from.path)).toBe(folderOf(entry.path))
  const plan = await planApply(context, record, view, { all: true, includeIgnored: false })

  const outcomes = new Map<string, Outcome>(pairs.map((pair) => [pair.key, 'there already']))
  const note = (path: string, outcome: Outcome) => outcomes.set(pairs[Number(folderOf(path))]!.key, outcome)
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

  // Whatever is offered settles it: nothing is asked again, all lands, and all of it can be taken back.
  for (const choice of ['mine', 'theirs', 'both', 'edit'] as const) {
    for (const { root, path, anchor, choices } of plan.conflicts) {
      const entry = manifest.entries.find((each) => each.root === root && toText(each.path) === path)!
      const chosen = choices.includes(choice) ? choice : choices[0]!
      const content = chosen === 'edit' ? await blobOf('edited\n') : null
      const at = new Date().toISOString()
      context.records.resolve(id, { root, path: entry.path, anchor, choice: chosen, content, by: 'test', at })
    }
    const { state } = await bench.changesets.apply(id, { all: true, include_ignored: false }, 'test')
    expect(state).toBe('applied')
    if (choice !== 'mine') expect(await bench.snapshot()).not.toBe(before)
    await bench.changesets.undo(id, 'test')
    expect(await bench.snapshot()).toBe(before)
  }

  async function blobOf(text: string): Promise<string> {
    const writer = new PackWriter(bench.layout.objects(record.repoId), realDisk)
    const oid = await writer.add('blob', Buffer.from(text))
    await writer.flush()
    return oid
  }
})
