import { lookup } from 'node:dns/promises'

/** Gives the addresses of a name, in the order to try them. Rejects when there are none. */
export type Resolver = (host: string) => Promise<readonly string[]>

const systemResolver: Resolver = async (host) => {
  const found = await lookup(host, { all: true, order: 'verbatim' })
  return found.map(({ address }) => address)
}

/**
 * Remembers answers for a moment and asks once for a name that many connections want at the same time:
 * lookups run on a few threads, and one sandbox must not fill them.
 */
export function memoisedResolver(inner: Resolver = systemResolver, keepMs = 2000, limit = 256): Resolver {
  const kept = new Map<string, { readonly answer: Promise<readonly string[]>; readonly until: number }>()
  return (host) => {
    const now = Date.now()
    const known = kept.get(host)
    if (known !== undefined && known.until > now) return known.answer
    if (kept.size >= limit) kept.clear()
    const answer = inner(host)
    answer.catch(() => kept.delete(host))
    kept.set(host, { answer, until: now + keepMs })
    return answer
  }
}
