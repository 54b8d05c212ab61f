export type Caps = {
  /** Open connections at one time. */
  readonly connections: number
  /** All bytes of the sandbox, both ways. */
  readonly bytes: number
  /** Until a program has said where it wants to go. */
  readonly handshakeMs: number
  /** Resolving and dialling together. */
  readonly connectMs: number
  /** Without a byte in either direction. */
  readonly idleMs: number
  /** Without a byte once one side has said its last: who never hangs up must not hold a place for long. */
  readonly halfClosedMs: number
  readonly lifetimeMs: number
}

export const defaultCaps: Caps = {
  connections: 1024,
  bytes: 64 * 1024 ** 3,
  handshakeMs: 10_000,
  connectMs: 20_000,
  idleMs: 60 * 60_000,
  halfClosedMs: 5 * 60_000,
  lifetimeMs: 24 * 60 * 60_000,
}
