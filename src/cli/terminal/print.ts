export function print(text: string): void {
  process.stdout.write(text.endsWith('\n') || text === '' ? text : `${text}\n`)
}

/** One JSON document; `null` rather than nothing. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value ?? null, null, 2))
}

/** One JSON object on one line, for what goes on. */
export function printJsonLine(value: unknown): void {
  print(JSON.stringify(value))
}
