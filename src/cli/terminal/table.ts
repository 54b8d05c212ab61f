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

function shorten(text: string, width: number): string {
  if (widthOf(text) <= width) return text
  const plain = stripVTControlCharacters(text)
  let kept = ''
  for (const character of plain) {
    if (widthOf(kept + character) > width - 1) break
    kept += character
  }
  return `${kept}…`
}

/** Aligned columns under a quiet heading. On a terminal the last column gives way to its width. */
export function renderTable(heading: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [heading.map((title) => title.toUpperCase()), ...rows]
  const widths = heading.map((_, column) => Math.max(...all.map((row) => widthOf(row[column] ?? ''))))
  const before = widths.slice(0, -1).reduce((sum, width) => sum + width + 2, 0)
  const room = process.stdout.isTTY ? Math.max(10, process.stdout.columns - before) : Number.POSITIVE_INFINITY
  const lines = all.map((row) =>
    row
      .map((cell, column) =>
        column === heading.length - 1 ? shorten(cell, room) : pad(cell, widths[column] ?? 0),
      )
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
