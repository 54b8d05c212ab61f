import { readFileSync } from 'node:fs'

/** `0-2,5`, as the kernel writes them. */
export function parseProcessors(list: string): readonly number[] {
  return list
    .trim()
    .split(',')
    .flatMap((part) => {
      const [first, last = first] = part.split('-').map(Number)
      if (first === undefined || last === undefined || part === '') return []
      return Array.from({ length: last - first + 1 }, (_, index) => first + index)
    })
}

export function writeProcessors(numbers: readonly number[]): string {
  const runs: [first: number, last: number][] = []
  for (const number of numbers) {
    const current = runs.at(-1)
    if (current !== undefined && current[1] + 1 === number) current[1] = number
    else runs.push([number, number])
  }
  return runs.map(([first, last]) => (first === last ? String(first) : `${first}-${last}`)).join(',')
}

/** Those we may run on ourselves: nobody gets others through us. */
export const ownProcessors = (): readonly number[] =>
  parseProcessors(/^Cpus_allowed_list:\s*(.*)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0')
