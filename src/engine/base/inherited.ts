import { readdirSync, readFileSync } from 'node:fs'

const closeOnExec = 0o2000000

/** Empty for the one the listing itself was read through. */
function describe(number: number): string {
  try {
    return readFileSync(`/proc/self/fdinfo/${number}`, 'utf8')
  } catch {
    return ''
  }
}

/** Node's own descriptors are closed on exec; one above the three that is not was handed down. None where there is no /proc. */
export function inheritedDescriptors(): readonly number[] {
  let numbers: readonly number[] = []
  try {
    numbers = readdirSync('/proc/self/fd').map(Number)
  } catch {
    return []
  }
  return numbers.filter((number) => {
    if (number <= 2) return false
    const flags = /^flags:\s*(\d+)/m.exec(describe(number))?.[1]
    return flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0
  })
}
