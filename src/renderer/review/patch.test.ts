import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { splitPatch, withoutEndNotes, unquote, visiblePatch } from './patch.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'orangery-patch-'))
  git('init', '-q')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function git(...args: string[]): string {
  const env = { ...process.env, GIT_CONFIG_NOSYSTEM: '1', GIT_CONFIG_GLOBAL: '/dev/null' }
  return execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@t', ...args], {
    cwd: folder,
    encoding: 'utf8',
    env,
  })
}

test('every name git can print is found again', () => {
  const names = [
    'plain.txt',
    'with space.txt',
    'naïve.txt',
    'tab\there',
    'line\nbreak',
    'quote".txt',
    'back\\slash',
    '🍊.ts',
    'a b/a b',
  ]
  for (const name of names) {
    if (name.includes('/')) execFileSync('mkdir', ['-p', join(folder, name.split('/')[0]!)])
    writeFileSync(join(folder, name), 'diff --git a/evil b/evil\n@@ -1 +1 @@\n')
  }
  git('add', '-A')
  const patches = splitPatch(git('diff', '--cached'))
  expect(patches.map((patch) => patch.path).sort()).toEqual([...names].sort())
})

test('renames, mode changes and binaries have a name without content lines', () => {
  writeFileSync(join(folder, 'old name'), 'some text that is long enough to be found again\n')
  writeFileSync(join(folder, 'run.sh'), '#!/bin/sh\n')
  git('add', '-A')
  git('commit', '-qm', 'base')
  git('mv', 'old name', 'new name')
  execFileSync('chmod', ['+x', join(folder, 'run.sh')])
  writeFileSync(join(folder, 'image.png'), Buffer.from([0, 1, 2, 255]))
  git('add', '-A')
  const paths = splitPatch(git('diff', '--cached', '-M')).map((patch) => patch.path)
  expect(paths.sort()).toEqual(['image.png', 'new name', 'run.sh'])
})

test('a quoted name is its bytes', () => {
  expect(unquote('"na\\303\\257ve \\"x\\"\\\\\\t"')).toBe('naïve "x"\\\t')
  expect(unquote('plain')).toBe('plain')
})

const patch = (...lines: string[]) =>
  ['diff --git a/x b/x', '--- a/x', '+++ b/x', '@@ -1,2 +1,2 @@', ...lines, ''].join('\n')

test('hidden and control characters in a line are shown', () => {
  expect(visiblePatch(patch('-a', '+a\u202e\u001b[2K'))).toContain('+a‹U+202E›‹ESC›[2K')
})

test('carriage returns are left out only where every line has one', () => {
  expect(visiblePatch(patch('-a\r', '+b\r'))).toBe(patch('-a', '+b'))
  expect(visiblePatch(patch('-a', '+a\r'))).toBe(patch('-a', '+a‹CR›'))
})

test('the target of a link is shown without the remark that it has no newline, and nothing else goes', () => {
  const patch =
    '@@ -1 +1 @@\n-old\n\\ No newline at end of file\n+\\ No newline at end of file\n\\ No newline at end of file\n'
  expect(withoutEndNotes(patch)).toBe('@@ -1 +1 @@\n-old\n+\\ No newline at end of file\n')
})
