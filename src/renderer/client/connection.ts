import type { Client } from '../../shared/api.ts'
import { connectClient, type Channel } from '../../shared/wire/index.ts'

export type ConnectionState =
  | { readonly status: 'connecting' }
  | { readonly status: 'open'; readonly client: Client }
  | { readonly status: 'lost'; readonly since: number }

/** Keeps one client alive: when the channel closes it says so and tries again, slower each time. */
export class Connection {
  readonly #open: () => Promise<Channel>
  readonly #delays: readonly number[]
  readonly #listeners = new Set<() => void>()
  #state: ConnectionState = { status: 'connecting' }
  #attempt = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(open: () => Promise<Channel>, delays: readonly number[] = [250, 500, 1000, 2000, 4000]) {
    this.#open = open
    this.#delays = delays
    void this.#connect()
  }

  get state(): ConnectionState {
    return this.#state
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  snapshot = (): ConnectionState => this.#state

  retryNow = (): void => {
    clearTimeout(this.#timer)
    void this.#connect()
  }

  #become(state: ConnectionState) {
    this.#state = state
    for (const listener of this.#listeners) listener()
  }

  #lose() {
    if (this.#state.status !== 'lost') this.#become({ status: 'lost', since: Date.now() })
    const delay = this.#delays[Math.min(this.#attempt, this.#delays.length - 1)] ?? 1000
    this.#attempt++
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#connect(), delay)
  }

  async #connect() {
    try {
      const channel = await this.#open()
      const client = connectClient({
        ...channel,
        onClose: (listener) =>
          channel.onClose(() => {
            listener()
            this.#lose()
          }),
      })
      this.#attempt = 0
      this.#become({ status: 'open', client })
    } catch {
      this.#lose()
    }
  }
}
