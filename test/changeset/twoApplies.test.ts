import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'
import type { Changeset } from '../../src/shared/changeset.ts'

const names = Array.from({ length: 60 }, (_, at) => `file${at}`)

async function changed(place: Place, word: string): Promise<string> {
  const summary = join(place.home, `${word}.json`)
  const script = `for f in file*; do echo ${word} > $f; done`
  const { code, stderr } = await place.orangery('run', '--summary', summary, '--', 'sh', '-c', script)
  expect(code, stderr).toBe(0)
  return (JSON.parse(readFileSync(summary, 'utf8')) as { id: string }).id
}

/** The escape suite's "two applies at once": from two processes, as from the window and a terminal. */
test('of two applies at once one lands and the other is told why not; no file is of the other one', async () => {
  using place = new Place('launcher')
  for (const name of names) writeFileSync(join(place.folder, name), 'old\n')
  const ids = [await changed(place, 'first'), await changed(place, 'second')]
  const contents = () => new Set(names.map((name) => readFileSync(join(place.folder, name), 'utf8')))
  const ended = await Promise.all(ids.map((id) => place.orangery('changeset', 'apply', id, '--all')))
  expect(ended.map(({ code }) => code).toSorted()).toEqual([0, 75])
  const loser = ended.findIndex(({ code }) => code === 75)
  // Told while the other one is at it, or by what it left: both say what to do.
  expect(ended[loser]?.stderr).toMatch(/landing in the same folders just now|changeset resolve/)
  const again = await place.orangery('changeset', 'apply', ids[loser] ?? '', '--all')
  expect(again.code).toBe(75)
  expect(again.stderr).toContain(`orangery changeset resolve ${ids[loser]}`)
  const marked = await place.orangery('changeset', 'conflicts', ids[loser] ?? '', '--path', 'file7')
  expect(marked.stdout).toMatch(/^<<<<<<< yours\n/)
  expect([...contents()]).toEqual([loser === 1 ? 'first\n' : 'second\n'])

  // The same one twice, as two people reviewed it: it lands once.
  const winner = ids[1 - loser] ?? ''
  expect((await place.orangery('changeset', 'undo', winner)).code).toBe(0)
  expect([...contents()]).toEqual(['old\n'])
  const shown = await place.orangery('changeset', 'show', winner, '--json')
  const { revision } = JSON.parse(shown.stdout) as Changeset
  const apply = () => place.orangery('changeset', 'apply', winner, '--all', '--revision', revision)
  const twice = await Promise.all([apply(), apply()])
  expect(twice.map(({ code }) => code).toSorted()).toEqual([0, 75])
  expect(twice.find(({ code }) => code === 75)?.stderr).toMatch(
    /landing in the same folders just now|has changed since it was reviewed/,
  )
  expect([...contents()]).toEqual([loser === 1 ? 'first\n' : 'second\n'])
  expect(readdirSync(place.folder).filter((name) => name.startsWith('.orangery-apply'))).toEqual([])
}, 180_000)
