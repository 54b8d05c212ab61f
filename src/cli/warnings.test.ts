import { afterEach, expect, test, vi } from 'vitest'
import { warnOf } from './warnings.ts'

afterEach(() => vi.restoreAllMocks())

test('of real files it is said whether the command writes them', () => {
  const lines: string[] = []
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => lines.push(String(text)) > 0)
  warnOf({ level: 1, strategy: 'none', boundary: 'readonly' })
  warnOf({ level: 1, strategy: 'none', boundary: 'readwrite' })
  warnOf({ level: 1, strategy: 'overlay', boundary: 'readonly' })
  expect(lines).toEqual([
    expect.stringContaining('cannot write them'),
    expect.stringContaining('writes your real files'),
  ])
})
