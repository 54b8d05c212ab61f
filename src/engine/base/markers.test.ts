import { expect, test } from 'vitest'
import { showingLine } from './markers.ts'

test('an ignore file is told by the very line that would show a marker to git', async () => {
  const lineOf = (path: string, text: string) => showingLine(path, Buffer.from(text))
  expect(await lineOf('.gitignore', '*.log\n!/.agency/**\n')).toBe('!/.agency/**')
  expect(await lineOf('.agency/.gitignore', '!SANDBOX*')).toBe('!SANDBOX*')
  for (const harmless of ['', '*.log\n', '!keep.log\n', '!/.agency/\n', '!*\n.agency/*\n'])
    expect(await lineOf('.gitignore', harmless)).toBeNull()
})
