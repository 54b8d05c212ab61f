const megabyte = 1024 * 1024

/** Sizes worth offering; any other that was set on the command line is shown as it is. */
export const keptChoices: readonly {
  readonly name: string
  readonly label: string
  readonly bytes: number | null
}[] = [
  { name: 'all', label: 'All', bytes: null },
  { name: '10g', label: '10 GB', bytes: 10_240 * megabyte },
  { name: '1g', label: '1 GB', bytes: 1024 * megabyte },
  { name: '100m', label: '100 MB', bytes: 100 * megabyte },
  { name: 'none', label: 'None', bytes: 0 },
]

/** The choice that says exactly what is set, or null. */
export const choiceOf = (kept: number | null): string | null =>
  keptChoices.find((choice) => choice.bytes === kept)?.name ?? null
