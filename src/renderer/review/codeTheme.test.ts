import { expect, test } from 'vitest'
import { grounds, readableTheme } from './codeTheme.ts'
import { contrast, parseHex, readableOn } from './readable.ts'

test.each(['light', 'dark'] as const)(
  'every colour of code can be read on plain, added and removed lines and on changed words, in %s',
  async (type) => {
    const { settings } = await readableTheme(type)
    const colours = new Set(
      settings.map((rule) => rule.settings.foreground).filter((text) => text !== undefined),
    )
    expect(colours.size).toBeGreaterThan(10)
    const faint = [...colours].filter((text) => {
      const colour = parseHex(text)
      return colour === null || grounds[type].some((ground) => contrast(colour, ground) < 4.5)
    })
    expect(faint).toEqual([])
  },
)

test('a colour that can be read stays as it is, and one that cannot keeps its hue', () => {
  expect(readableOn('#fafafa', grounds.dark, 'white')).toBe('#fafafa')
  const [red, green, blue] = parseHex(readableOn('#d5a910', grounds.light, 'black')) ?? [0, 0, 0]
  expect(red).toBeGreaterThan(green)
  expect(green).toBeGreaterThan(blue)
  expect(contrast([0, 0, 0], [255, 255, 255])).toBeCloseTo(21)
})
