/** Red, green and blue, each from 0 to 255. */
export type Colour = readonly [number, number, number]

const linear = (part: number) => {
  const share = part / 255
  return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
}
const luminance = ([red, green, blue]: Colour) =>
  0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)

/** How well one is read on the other, as WCAG counts it: from 1 to 21. */
export function contrast(one: Colour, other: Colour): number {
  const [low = 0, high = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b)
  return (high + 0.05) / (low + 0.05)
}

export function parseHex(text: string): Colour | null {
  const digits = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})(?:ff)?$/i.exec(text)
  if (digits === null) return null
  const [red = 0, green = 0, blue = 0] = digits.slice(1).map((part) => Number.parseInt(part, 16))
  return [red, green, blue]
}

const toHex = (colour: Colour) =>
  `#${colour.map((part) => Math.round(part).toString(16).padStart(2, '0')).join('')}`

const enough = 4.6
const steps = 40

/** The same hue, as far towards white (or black) as it takes to be read on every one of the grounds. */
export function readableOn(text: string, grounds: readonly Colour[], towards: 'white' | 'black'): string {
  const colour = parseHex(text)
  if (colour === null) return text
  const end = towards === 'white' ? 255 : 0
  for (let step = 0; step <= steps; step++) {
    const share = step / steps
    const [red, green, blue] = colour
    const mixed: Colour = [
      red + (end - red) * share,
      green + (end - green) * share,
      blue + (end - blue) * share,
    ]
    if (grounds.every((ground) => contrast(mixed, ground) >= enough)) return toHex(mixed)
  }
  return towards === 'white' ? '#ffffff' : '#000000'
}
