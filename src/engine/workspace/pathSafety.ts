import { sep } from 'node:path'

/** Whether `inner` is `outer` or lies below it. Both are absolute and normalised. */
export function isInside(inner: string, outer: string): boolean {
  return inner === outer || inner.startsWith(outer.endsWith(sep) ? outer : outer + sep)
}

/** Whether one of the two contains the other. */
export function overlaps(one: string, other: string): boolean {
  return isInside(one, other) || isInside(other, one)
}
