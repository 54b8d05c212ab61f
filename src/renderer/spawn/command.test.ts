import { execFileSync } from 'node:child_process'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { shellLine } from '../../shared/shellLine.ts'
import { commandOf } from './command.ts'

test('plain words and quotes need no shell', () => {
  expect(commandOf('  npm run  build ')).toEqual(['npm', 'run', 'build'])
  expect(commandOf(`git commit -m "two words" 'and it''s'`)).toEqual([
    'git',
    'commit',
    '-m',
    'two words',
    'and its',
  ])
  expect(commandOf("echo ''")).toEqual(['echo', ''])
  expect(commandOf('')).toEqual([])
})

test.each([
  'make && make test',
  'echo $HOME',
  'cat *.ts',
  'A=1 make',
  'echo "a $b"',
  String.raw`echo a\ b`,
  'echo it’s "open',
])('%s is left to a shell, whole', (line) => expect(commandOf(line)).toEqual(['sh', '-c', line]))

test('a line made of words is read by a real shell as exactly these words', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.string({ unit: 'grapheme' }).filter((word) => !word.includes('\0')),
        { minLength: 1, maxLength: 4 },
      ),
      (words) => {
        const output = execFileSync('sh', ['-c', `printf '%s\\0' ${shellLine(words)}`], { encoding: 'utf8' })
        expect(output.split('\0').slice(0, -1)).toEqual(words)
      },
    ),
    { numRuns: 40 },
  )
})
