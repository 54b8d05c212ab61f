/** Several ways out in one line: a command ends where the next one begins, a sentence by itself. */
export function joinHints(hints: Iterable<string>): string {
  const [first = '', ...others] = new Set(hints)
  return others.reduce((line, hint) => `${line}${/[.!?…]$/.test(line) ? ' ' : '; '}${hint}`, first)
}
