export const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

const units = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
] as const

/** How long ago, in the largest unit that fits. */
export function age(then: string, now: Date = new Date()): string {
  const seconds = Math.max(0, (now.getTime() - new Date(then).getTime()) / 1000)
  for (const [unit, size] of units) {
    if (seconds >= size) return `${plural(Math.floor(seconds / size), unit)} ago`
  }
  return seconds < 5 ? 'just now' : `${Math.floor(seconds)} seconds ago`
}

export function duration(fromIso: string, toIso: string): string {
  const milliseconds = new Date(toIso).getTime() - new Date(fromIso).getTime()
  if (milliseconds < 60_000) return `${(milliseconds / 1000).toFixed(1)} s`
  const seconds = Math.round(milliseconds / 1000)
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}

const byteUnits = ['B', 'KB', 'MB', 'GB', 'TB'] as const

export function size(bytes: number): string {
  const power = bytes < 1024 ? 0 : Math.min(byteUnits.length - 1, Math.floor(Math.log2(bytes) / 10))
  const value = bytes / 1024 ** power
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${byteUnits[power]}`
}
