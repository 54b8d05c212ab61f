import type { RowResult } from './measure.ts'

const figure = (value: number) =>
  value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)

/** The results as people read them: each row with its contenders, medians, the middle half and ratios. */
export function renderTable(results: readonly RowResult[]): string {
  const lines: string[] = []
  for (const result of results) {
    lines.push('', result.name)
    if (result.left_out !== null) lines.push(`  not measured here: ${result.left_out}`)
    const width = Math.max(0, ...result.contenders.map(({ name }) => name.length))
    for (const { name, median, low, high, samples } of result.contenders) {
      const verdicts = result.verdicts.filter(({ against }) => against === name)
      const judged = verdicts.map(
        ({ ratio, limit, ok }) =>
          `  ratio ${figure(ratio)} ×${limit === null ? '' : ` (${limit}: ${ok ? 'holds' : 'DOES NOT HOLD'})`}`,
      )
      const middle = `${figure(low)} … ${figure(high)}`
      lines.push(
        `  ${name.padEnd(width)}  ${figure(median).padStart(8)} ${result.unit}  [${middle}]  n=${samples.length}${judged.join('')}`,
      )
    }
  }
  return lines.join('\n').trimStart()
}
