import { z } from 'zod'

export type DispatchId = string & { readonly __brand: 'DispatchId' }
export type RepoId = string & { readonly __brand: 'RepoId' }

/** `YYYYMMDDHHMMSS-xxxx`, UTC and four lowercase hex digits. */
const dispatchIdPattern = /^\d{14}-[0-9a-f]{4}$/

export const dispatchIdSchema = z
  .string()
  .regex(dispatchIdPattern, 'an id looks like 20260128120500-b7c9')
  .transform((id) => id as DispatchId)

export function isDispatchId(text: string): text is DispatchId {
  return dispatchIdPattern.test(text)
}

export function makeDispatchId(now: Date, random: Uint8Array): DispatchId {
  const stamp = now.toISOString().replaceAll(/[-:T]/g, '').slice(0, 14)
  const suffix = [...random.subarray(0, 2)].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return `${stamp}-${suffix}` as DispatchId
}
