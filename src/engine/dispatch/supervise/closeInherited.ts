import { closeSync, readdirSync, readFileSync } from 'node:fs'

const closeOnExec = 0o2000000

/** Empty for the one the listing itself was read through. */
function describe(number: number): string {
  try {
    return readFileSync(`/proc/self/fdinfo/${number}`, 'utf8')
  } catch {
    return ''
  }
}

/** Node's own descriptors are closed on exec; one above the three that is not was handed down. Linux only. */
function inherited(): readonly number[] {
  const numbers = readdirSync('/proc/self/fd').map(Number)
  return numbers.filter((number) => {
    if (number <= 2) return false
    const flags = /^flags:\s*(\d+)/m.exec(describe(number))?.[1]
    return flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0
  })
}

/**
 * A supervisor outlives its host and whoever started that: a pipe of theirs it kept would never end, and each
 * sandbox would have to close it anew. On Electron's Node some of these are its own, and stay.
 */
function closeInherited(): void {
  if ('electron' in process.versions) return
  try {
    for (const number of inherited()) closeSync(number)
  } catch {
    // No /proc, or gone meanwhile: the gate of a sandbox closes what is left.
  }
}

// As the first import of a program: modules that look at what was inherited come after it.
closeInherited()
