import type { NetworkUse } from '../../shared/effective.ts'

export const mostHosts = 1000
const otherHosts = '(other hosts)'

type Reached = { connections: number; bytes: number; unreachable: number }

/**
 * Who was reached and who was not, by host. Names are the agent's to invent: without a limit they would fill our memory,
 * and the log. Of those refused the rest is one; of those let out each has its name, or is not let out: a thousand hosts
 * would else hide the one that was sent something. (escape: hidden-host)
 */
export class Books {
  #bytes = 0
  readonly #reached = new Map<string, Reached>()
  readonly #denied = new Map<string, { connections: number; why: string }>()

  /** Of all hosts, both ways. */
  get bytes(): number {
    return this.#bytes
  }

  /** Takes a place for a host, before anybody outside hears of it; false: there is none left. */
  admit(host: string): boolean {
    if (!this.#reached.has(host) && this.#reached.size >= mostHosts) return false
    this.#of(host)
    return true
  }

  opened(host: string): void {
    this.#of(host).connections++
  }

  /** Allowed, and yet nobody answered. */
  failed(host: string): void {
    this.#of(host).unreachable++
  }

  carried(host: string, bytes: number): void {
    this.#bytes += bytes
    this.#of(host).bytes += bytes
  }

  /** The name under which it is on record. */
  denied(host: string, why: string): string {
    const hasPlace = this.#denied.size < mostHosts || this.#denied.has(host) || this.#reached.has(host)
    const name = hasPlace ? host : otherHosts
    // The last reason is the one that holds: after a change of the boundary the first speaks of another.
    this.#denied.set(name, { connections: (this.#denied.get(name)?.connections ?? 0) + 1, why })
    return name
  }

  use(): NetworkUse {
    const tried = [...this.#reached].filter(
      ([, { connections, unreachable }]) => connections > 0 || unreachable > 0,
    )
    return {
      allowed: tried.map(([host, { connections, bytes, unreachable }]) => ({
        host,
        connections,
        bytes,
        ...(unreachable > 0 ? { unreachable } : {}),
      })),
      denied: [...this.#denied].map(([host, { connections, why }]) => ({ host, connections, why })),
    }
  }

  #of(host: string): Reached {
    const use = this.#reached.get(host) ?? { connections: 0, bytes: 0, unreachable: 0 }
    this.#reached.set(host, use)
    return use
  }
}
