import type { ComparedField } from './compare.ts'

/** Control characters would let a tool's name redraw the reader's terminal. (escape: printed-control-characters) */
const tame = (text: string): string => text.replaceAll(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, '�')

/** The same as plain text, for a terminal: `≠` marks a difference, `!` a violation. */
export function comparisonLines(fields: readonly ComparedField[]): string[] {
  const rows = fields.map((each) => [each.field, each.requested ?? '–', each.effective ?? '–'].map(tame))
  const table = [['', 'requested', 'effective'], ...rows]
  const widths = [0, 1].map((column) =>
    Math.min(48, Math.max(...table.map((row) => [...(row[column] ?? '')].length))),
  )
  const pad = (text: string, width: number) => text + ' '.repeat(Math.max(0, width - [...text].length))
  return table.map((row, index) => {
    const field = fields[index - 1]
    const mark = field?.violation != null ? '!' : field?.differs === true ? '≠' : ' '
    const [name = '', requested = '', effective = ''] = row
    return `${mark} ${pad(name, widths[0] ?? 0)}  ${pad(requested, widths[1] ?? 0)}  ${effective}`.trimEnd()
  })
}
