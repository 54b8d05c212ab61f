import { expect, test } from 'vitest'
import type { ChangedFile, Decision } from '../../shared/changeset.ts'
import {
  decidedOn,
  formerDecisions,
  rootNames,
  inReviewOrder,
  keyOf,
  sectionOf,
  startsCollapsed,
  stateOf,
  stepFile,
  stepHunk,
  tallyOf,
} from './model.ts'

function file(path: string, decisions: Decision[] = [null], over: Partial<ChangedFile> = {}): ChangedFile {
  return {
    root: '/r',
    path,
    change: 'modified',
    kind: 'file',
    binary: false,
    mode_before: '100644',
    mode_after: '100644',
    sha256_before: 'a',
    sha256_after: 'b',
    size_before: 1,
    size_after: 2,
    insertions: 1,
    deletions: 1,
    protected: false,
    ignored: false,
    refused: null,
    hunks: decisions.map((decision, at) => ({
      id: `${path}${at}`,
      header: '@@',
      decision,
      insertions: 1,
      deletions: 0,
    })),
    decision: null,
    ...over,
  }
}

test('the state of a file follows from its hunks', () => {
  expect(stateOf(file('a', ['approve', 'approve']))).toBe('approved')
  expect(stateOf(file('a', ['approve', null]))).toBe('partial')
  expect(stateOf(file('a', ['reject', 'rework']))).toBe('partial')
  expect(stateOf(file('a', [null, null]))).toBe('open')
  expect(stateOf(file('a', [], { decision: 'reject' }))).toBe('rejected')
  expect(stateOf(file('a', [null, null], { decision: 'approve' }))).toBe('approved')
})

test('files stand in the order in which reviewing them is worth most', () => {
  const files = [
    file('package-lock.json'),
    file('src/app.test.ts'),
    file('node_modules/x.js', [null], { ignored: true }),
    file('tsconfig.json'),
    file('src/app.ts'),
    file('.envrc', [null], { protected: true }),
    file('leaving', [], { refused: 'link leaves the roots' }),
  ]
  expect(inReviewOrder(files).map(sectionOf)).toEqual([
    'protected',
    'source',
    'tests',
    'config',
    'generated',
    'ignored',
    'refused',
  ])
})

test('generated, ignored and very long files start collapsed', () => {
  expect(startsCollapsed(file('src/a.ts'))).toBe(false)
  expect(startsCollapsed(file('yarn.lock'))).toBe(true)
  expect(startsCollapsed(file('src/a.ts', [null], { insertions: 501 }))).toBe(true)
})

test('the tally leaves out what is ignored or cannot land', () => {
  const tally = tallyOf({
    files: [
      file('a.ts', ['approve', null]),
      file('b.ts', ['approve']),
      file('.envrc', [null], { protected: true }),
      file('node_modules/x', [null], { ignored: true }),
      file('device', [], { refused: 'a device node' }),
    ],
  })
  expect(tally).toMatchObject({
    files: 3,
    decidedFiles: 1,
    hunks: 4,
    decidedHunks: 2,
    approvedFiles: 2,
    protectedOpen: 1,
    ignored: 1,
    refused: 1,
    openFiles: 1,
  })
})

test('a file that was deleted after a change of it was rejected is not among what "approve all" takes in', () => {
  const tally = tallyOf({ files: [file('a', [null], { asked_again: true }), file('b')] })
  expect(tally).toMatchObject({ files: 2, openFiles: 1, askedAgain: 1 })
})

test('the caret walks hunks over file borders and stops at either end', () => {
  const files = [file('a', [null, null]), file('b', []), file('c', [null])]
  const walked: string[] = []
  for (let caret = stepHunk(files, null, 1); caret !== null; caret = stepHunk(files, caret, 1)) {
    walked.push(`${caret.file.split('\n')[1]}${caret.hunk}`)
  }
  expect(walked).toEqual(['a0', 'a1', 'b0', 'c0'])
  expect(stepHunk(files, { file: keyOf(files[0]!), hunk: 0 }, -1)).toBeNull()
  expect(stepFile(files, { file: keyOf(files[0]!), hunk: 1 }, 1)).toEqual({ file: keyOf(files[1]!), hunk: 0 })
})

test('taking back a decision on a file restores what its hunks had', () => {
  expect(formerDecisions(file('a', ['approve', null]), 1)).toEqual([{ hunk: 1, verdict: null }])
  expect(formerDecisions(file('a', ['approve', 'approve']), null)).toEqual([
    { hunk: null, verdict: 'approve' },
  ])
  expect(formerDecisions(file('a', ['approve', null, 'reject']), null)).toEqual([
    { hunk: null, verdict: null },
    { hunk: 0, verdict: 'approve' },
    { hunk: 2, verdict: 'reject' },
  ])
})

test('of several roots each is called what no other one is', () => {
  expect([...rootNames(['/home/ada/shop']).values()]).toEqual([])
  expect([...rootNames(['/home/ada/shop', '/home/ada/docs']).values()]).toEqual(['shop/', 'docs/'])
  expect([...rootNames(['/a/one/app', '/a/two/app', '/b/web']).values()]).toEqual([
    'one/app/',
    'two/app/',
    'web/',
  ])
  expect([...rootNames(['/app', '/b/app']).values()]).toEqual(['/app/', 'b/app/'])
})

test('a decision names the version of the file that is shown', () => {
  const shown = file('a', [null, null], { anchor: 'seen' })
  expect(decidedOn(shown, null)).toEqual({ root: '/r', path: 'a', anchor: 'seen' })
  expect(decidedOn(shown, 1)).toEqual({ root: '/r', path: 'a', hunk: 'a1', anchor: 'seen' })
})
