import type { Command } from 'commander'
import { expect, test } from 'vitest'
import { createProgram } from './program.ts'

function leaves(command: Command, path: readonly string[] = []): { path: string; command: Command }[] {
  if (command.commands.length === 0) return [{ path: path.join(' '), command }]
  return command.commands.flatMap((child) => leaves(child, [...path, child.name()]))
}

function helpOf(command: Command): string {
  let text = ''
  command.configureOutput({ writeOut: (part) => (text += part) })
  command.outputHelp()
  return text
}

test('every command has an example in its help, and every one but run speaks JSON', () => {
  for (const { path, command } of leaves(createProgram())) {
    expect(helpOf(command), path).toMatch(/Examples?:\n {2}(source <\()?orangery /)
    const speaksJson = command.options.some((option) => option.long === '--json')
    expect(speaksJson, path).toBe(path !== 'run')
  }
})
