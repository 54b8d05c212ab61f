import { registerCustomTheme, resolveTheme } from '@pierre/diffs'
import { readableOn, type Colour } from './readable.ts'

/** What code lies on, as drawn from `diff.css`: the pane, an added line, a removed one, the words changed in each. */
export const grounds: Readonly<Record<'light' | 'dark', readonly Colour[]>> = {
  light: [
    [253, 254, 254],
    [230, 244, 235],
    [255, 234, 231],
    [200, 232, 214],
    [251, 209, 206],
  ],
  dark: [
    [17, 22, 25],
    [30, 50, 42],
    [57, 37, 37],
    [36, 71, 54],
    [84, 46, 46],
  ],
}

/** The viewer's own theme, whose comments, punctuation and constants are too faint on a changed line. */
export async function readableTheme(type: 'light' | 'dark') {
  const { textmate } = await resolveTheme(`pierre-${type}`)
  if (textmate === undefined) throw new Error(`pierre-${type} colours no code`)
  const towards = type === 'dark' ? 'white' : 'black'
  return {
    ...textmate,
    name: codeThemes[type],
    settings: textmate.settings.map((rule) =>
      rule.settings.foreground === undefined
        ? rule
        : {
            ...rule,
            settings: {
              ...rule.settings,
              foreground: readableOn(rule.settings.foreground, grounds[type], towards),
            },
          },
    ),
  }
}

export const codeThemes = { light: 'orangery-light', dark: 'orangery-dark' } as const
registerCustomTheme(codeThemes.light, () => readableTheme('light'))
registerCustomTheme(codeThemes.dark, () => readableTheme('dark'))
