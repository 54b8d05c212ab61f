import type { Base } from '../capture/bases.ts'
import type { Journal } from './journal.ts'
import { entryKey, type Entry } from '../manifest.ts'

/** What several applies of a changeset did, as if it had been one. */
export type Together = {
  /** What each path was compared with before the first of them landed something there. */
  readonly before: ReadonlyMap<string, Base>
  /** And since the last of them. */
  readonly since: ReadonlyMap<string, Base>
  /** Whatever landed, as the last of them found it in the changeset. */
  readonly landed: readonly Entry[]
}

/** `journals`: the oldest first. */
export function together(journals: readonly Journal[]): Together {
  const before = new Map<string, Base>()
  const since = new Map<string, Base>()
  const landed = new Map<string, Entry>()
  for (const { bases, bases_before: former, previous } of journals) {
    const entries = new Map(previous.entries.map((entry) => [entryKey(entry), entry]))
    for (const [key, base] of former) {
      const entry = entries.get(key)
      if (entry !== undefined) landed.set(key, entry)
      if (!before.has(key))
        before.set(key, base ?? { side: entry?.base ?? null, certain: entry?.certain ?? true })
    }
    for (const [key, base] of bases) since.set(key, base)
  }
  return { before, since, landed: [...landed.values()] }
}
