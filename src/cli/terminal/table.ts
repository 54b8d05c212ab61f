import { stripVTControlCharacters } from 'node:util'
import { paint } from './style.ts'

const wide =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u
const without = /\p{Mark}/u

function widthOf(text: string): number {
  let width = 0
  for (const character of stripVTControlCharacters(text)) {
    width += without.test(character) ? 0 : wide.test(character) ? 2 : 1
  }
  return width
}

const pad = (text: string, width: number) => text + ' '.repeat(Math.max(0, width - widthOf(text)))

export function shorten(text: string, width: number): string {
  if (widthOf(text) <= width) return text
  const plain = stripVTControlCharacters(text)
  let kept = ''
  for (const character of plain) {
    if (widthOf(kept + character) > width - 1) break
    kept += character
  }
  return `${kept}…`
}

/** What a name takes where there is no room for all of it. */
const shortestName = 16

const mostPadded = 100

/**
 * Aligned columns under a quiet heading. On a terminal the last column gives way to its width, and before it the
 * columns that only name things; nothing that is to be judged, like a path, is ever shortened.
 */
export function renderTable(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  names: readonly string[] = [],
  columns = process.stdout.isTTY ? process.stdout.columns : Number.POSITIVE_INFINITY,
): string {
  const all = [heading.map((title) => title.toUpperCase()), ...rows]
  const widths = heading.map((title, column) => {
    const every = all.map((row) => widthOf(row[column] ?? ''))
    // A very long name pushes its own row aside, and no other.
    return Math.max(...(names.includes(title) ? every : every.filter((width) => width <= mostPadded)))
  })
  const before = () => widths.slice(0, -1).reduce((sum, width) => sum + width + 2, 0)
  for (const name of names) {
    const column = heading.indexOf(name)
    const excess = before() + Math.min(widths.at(-1) ?? 0, shortestName) - columns
    const width = widths[column] ?? 0
    if (excess > 0) widths[column] = Math.min(width, Math.max(shortestName, width - excess))
  }
  const room = Math.max(10, columns - before())
  const lines = all.map((row) =>
    row
      .map((cell, column) => {
        if (column === heading.length - 1) return shorten(cell, room)
        const width = widths[column] ?? 0
        return pad(names.includes(heading[column] ?? '') ? shorten(cell, width) : cell, width)
      })
      .join('  ')
      .trimEnd(),
  )
  const [first = '', ...rest] = lines
  return [paint('dim', first), ...rest].join('\n')
}

/** `name  value` lines, names aligned. */
export function renderFields(fields: readonly (readonly [string, string])[]): string {
  const width = Math.max(...fields.map(([name]) => widthOf(name)))
  return fields.map(([name, value]) => `${paint('dim', pad(name, width))}  ${value}`).join('\n')
}
