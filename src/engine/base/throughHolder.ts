/**
 * A way to read what the agent made unreadable for us: its owner inside is root of a user namespace there.
 * `prefix` is a command that runs the words after it in such a namespace, with the caller's mounts, e.g.
 * `nsenter -t HOLDER -U --preserve-credentials` or `unshare -Ur`. Never the agent's own mount namespace.
 */
export type ThroughHolder = { readonly prefix: readonly [string, ...string[]] }

/** Root of a fresh user namespace may read whatever its one user owns, as the agent's own root could. */
export const ownNamespace: ThroughHolder = { prefix: ['unshare', '--user', '--map-root-user', '--'] }
