/** The log is no second copy of the output: what is longer is cut. */
const longestText = 4_000
export const short = (text: string): string =>
  text.length > longestText ? `${text.slice(0, longestText)}…` : text

/** An input that is too long to keep whole is kept as the line it gives to a shell, if it has one. */
export function shortInput(input: unknown): unknown {
  if ((JSON.stringify(input) ?? '').length <= longestText) return input
  const command = (input as { command?: unknown } | null)?.command
  return typeof command === 'string' ? { command: short(command) } : undefined
}
