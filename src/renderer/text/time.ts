const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

/** `now`, `4m`, `3h`, `2d`, then the date. */
export function ago(at: string, now: number): string {
  const passed = now - Date.parse(at)
  if (Number.isNaN(passed)) return ''
  if (passed < minute) return 'now'
  if (passed < hour) return `${Math.floor(passed / minute)}m`
  if (passed < day) return `${Math.floor(passed / hour)}h`
  if (passed < 7 * day) return `${Math.floor(passed / day)}d`
  return new Date(at).toLocaleDateString(undefined, { day: 'numeric', month: 'short' })
}

/** `640 ms`, `8.2 s`, `3m 04s`, `2h 11m`; nothing where a record says no time. */
export function duration(milliseconds: number): string {
  if (Number.isNaN(milliseconds)) return ''
  if (milliseconds < 1000) return `${Math.max(0, Math.round(milliseconds))} ms`
  if (milliseconds < minute) return `${(milliseconds / 1000).toFixed(milliseconds % 1000 === 0 ? 0 : 1)} s`
  if (milliseconds < hour) {
    const seconds = String(Math.floor((milliseconds % minute) / 1000)).padStart(2, '0')
    return `${Math.floor(milliseconds / minute)}m ${seconds}s`
  }
  const minutes = String(Math.floor((milliseconds % hour) / minute)).padStart(2, '0')
  return `${Math.floor(milliseconds / hour)}h ${minutes}m`
}

/** Records of any age and any program: a time that is none to us is shown as it was written. */
const isTime = (at: string) => !Number.isNaN(Date.parse(at))

export const dateTime = (at: string): string =>
  isTime(at) ? new Date(at).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' }) : at

export const date = (at: string): string =>
  isTime(at) ? new Date(at).toLocaleDateString(undefined, { dateStyle: 'medium' }) : at

export function clock(at: string): string {
  if (!isTime(at)) return at
  return new Date(at).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' })
}

/** `12 B`, `2.0 KB`, `612 KB`, `1.5 GB`: no more digits than a person can use. */
export function bytes(count: number): string {
  if (count < 1024) return `${count} B`
  const steps = count < 1024 ** 2 ? 1 : count < 1024 ** 3 ? 2 : 3
  const value = count / 1024 ** steps
  return `${value.toFixed(value < 100 ? 1 : 0)} ${['KB', 'MB', 'GB'][steps - 1]}`
}
