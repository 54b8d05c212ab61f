import type { ConfigNotice, EffectiveConfig, Provenance } from '../../shared/config.ts'

export type Setting = {
  readonly key: string
  readonly value: string
  readonly origins: readonly Provenance[]
  /** Somebody wrote it down. */
  readonly isSet: boolean
}

function valueAt(config: EffectiveConfig, key: string): unknown {
  let value: unknown = config
  for (const step of key.split('.')) value = (value as Record<string, unknown> | undefined)?.[step]
  return value
}

/** Approvals carry where they were found; the row says that once for all. */
const withoutPlace = (value: unknown): unknown => {
  if (typeof value !== 'object' || value === null || !('covers' in value)) return value
  const { agent, level, hosts, phase, expires, note } = value as Record<string, unknown>
  return { agent, level, hosts, phase, expires, note }
}

function show(value: unknown): string {
  if (value === null || value === undefined) return 'not set'
  if (Array.isArray(value)) {
    if (value.length === 0) return 'none'
    return value.every((each) => typeof each === 'string')
      ? value.join(', ')
      : value.map((each) => JSON.stringify(withoutPlace(each))).join('\n')
  }
  if (typeof value === 'object') {
    const parts = Object.entries(value).filter(
      ([, each]) => each !== null && !(Array.isArray(each) && each.length === 0),
    )
    return parts.length === 0 ? 'none' : parts.map(([name, each]) => `${name}: ${show(each)}`).join('; ')
  }
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Every value that holds and where it came from; what somebody set comes first. */
export function settingsOf(config: EffectiveConfig): readonly Setting[] {
  return Object.entries(config.provenance)
    .map(([key, origins]) => ({
      key,
      value: show(valueAt(config, key)),
      origins,
      isSet: origins.some(({ source }) => source !== 'default'),
    }))
    .toSorted((a, b) => Number(b.isSet) - Number(a.isSet))
}

export const placeOf = ({ file, line }: Pick<ConfigNotice, 'file' | 'line'>): string => `${file}:${line}`
