import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { bashScript, fishScript, zshScript } from './completion.ts'
import { createProgram } from './program.ts'

function completeInBash(...words: string[]): string[] {
  const script = `${bashScript(createProgram())}
compopt() { :; }
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _orangery; printf '%s\\n' "\${COMPREPLY[@]}"`
  return execFileSync('bash', ['-c', script, 'bash', ...words], { encoding: 'utf8' })
    .trim()
    .split('\n')
}

test('bash completes commands, their commands and their options', () => {
  expect(completeInBash('orangery', 'ch')).toEqual(['changeset'])
  expect(completeInBash('orangery', 'dispatch', 's')).toEqual(['spawn', 'status', 'shell'])
  expect(completeInBash('orangery', 'run', '--mem')).toEqual(['--memory-mb'])
})

test('what comes after two dashes is not ours to complete', () => {
  expect(completeInBash('orangery', 'run', '--', '--mem')).toEqual([''])
})

test('zsh and fish know every command', () => {
  const program = createProgram()
  for (const command of program.commands) {
    expect(zshScript(program)).toContain(`'${command.name()}:`)
    expect(fishScript(program)).toContain(`-a ${command.name()} `)
  }
})
