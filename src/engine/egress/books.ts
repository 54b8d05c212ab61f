import type { NetworkUse } from '../../shared/effective.ts'

const mostHosts = 1000
const otherHosts = '(other hosts)'

type Reached = { connections: number; bytes: number; unreachable: number }

/**
 * Who was reached and who was not, by host. Names are the agent's to invent: without a limit they would fill our memory,
 * and the log.
 */
export class Books {
  #bytes = 0
  readonly #reached = new Map<string, Reached>()
  readonly #denied = new Map<string, { connections: number; why: string }>()

  /** Of all hosts, both ways. */
  get bytes(): number {
    return this.#bytes
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
    const name = limited(this.#denied, host)
    const use = this.#denied.get(name)
    if (use !== undefined) use.connections++
    else this.#denied.set(name, { connections: 1, why })
    return name
  }

  use(): NetworkUse {
    return {
      allowed: [...this.#reached].map(([host, { connections, bytes, unreachable }]) => ({
        host,
        connections,
        bytes,
        ...(unreachable > 0 ? { unreachable } : {}),
      })),
      denied: [...this.#denied].map(([host, { connections, why }]) => ({ host, connections, why })),
    }
  }

  #of(host: string): Reached {
    const name = limited(this.#reached, host)
    const use = this.#reached.get(name) ?? { connections: 0, bytes: 0, unreachable: 0 }
    this.#reached.set(name, use)
    return use
  }
}

const limited = (known: ReadonlyMap<string, unknown>, host: string): string =>
  known.size >= mostHosts && !known.has(host) ? otherHosts : host
