import { stripVTControlCharacters } from 'node:util'
import { expect, test } from 'vitest'
import type { Changeset } from '../../shared/changeset.ts'
import { renderChangeset } from './changeset.render.ts'

test('a hunk names the start of the command that wrote it, however long that is and of how many lines', () => {
  const titles = ['sh -c "echo one\necho two"', `echo ${'x'.repeat(300)}`]
  const hunks = titles.map((title, index) => ({
    id: String(index),
    header: '@@',
    decision: null,
    insertions: 1,
    deletions: 0,
    provenance: { dispatch: 'd', seq: 1, at: '', title, certain: true },
  }))
  const file = { root: '/p', path: 'a', change: 'added', kind: 'file', decision: null, refused: null, hunks }
  const changeset = { id: 'c', state: 'review', roots: ['/p'], files: [file], dropped: [] }
  const shown = renderChangeset(changeset as unknown as Changeset, { hunks: true })
  const lines = stripVTControlCharacters(shown)
    .split('\n')
    .filter((line) => line.includes('hunk '))
  expect(lines[0]).toMatch(/, by sh -c "echo one …$/)
  expect(lines[1]).toMatch(/, by echo x{54}…$/)
})
