import type { Rule } from './rules.ts'
import { syscallNumber, type Architecture, type Syscall } from './syscalls.ts'

/**
 * A call that would change files. `dir` and `path` are the arguments that name the place (-1: the working directory).
 * `make` fails on a read-only mount only where nothing has that name yet, `take` only where something has; `change` goes
 * where a link leads.
 */
type Watched = {
  readonly call: Syscall
  readonly does: 'open' | 'make' | 'take' | 'move' | 'change'
  readonly dir: number
  readonly path: number
  /** Where the flags are, of an `open`, and of a `change` that can be told not to follow a link. */
  readonly flags?: number
}

// O_WRONLY | O_RDWR | O_CREAT | O_TRUNC
const writing = 0o1 | 0o2 | 0o100 | 0o1000

/** Also what a call by another name than these does is refused by the mount; it is only not seen. */
const watched: readonly Watched[] = [
  { call: 'openat', does: 'open', dir: 0, path: 1, flags: 2 },
  { call: 'open', does: 'open', dir: -1, path: 0, flags: 1 },
  { call: 'creat', does: 'move', dir: -1, path: 0 },
  { call: 'mkdir', does: 'make', dir: -1, path: 0 },
  { call: 'mkdirat', does: 'make', dir: 0, path: 1 },
  { call: 'mknod', does: 'make', dir: -1, path: 0 },
  { call: 'mknodat', does: 'make', dir: 0, path: 1 },
  { call: 'symlink', does: 'make', dir: -1, path: 1 },
  { call: 'symlinkat', does: 'make', dir: 1, path: 2 },
  { call: 'link', does: 'make', dir: -1, path: 1 },
  { call: 'linkat', does: 'make', dir: 2, path: 3 },
  { call: 'unlink', does: 'take', dir: -1, path: 0 },
  { call: 'unlinkat', does: 'take', dir: 0, path: 1 },
  { call: 'rmdir', does: 'take', dir: -1, path: 0 },
  { call: 'truncate', does: 'change', dir: -1, path: 0 },
  { call: 'rename', does: 'move', dir: -1, path: 1 },
  { call: 'renameat', does: 'move', dir: 2, path: 3 },
  { call: 'renameat2', does: 'move', dir: 2, path: 3 },
  { call: 'chmod', does: 'change', dir: -1, path: 0 },
  { call: 'fchmodat', does: 'change', dir: 0, path: 1 },
  { call: 'fchmodat2', does: 'change', dir: 0, path: 1, flags: 3 },
  { call: 'chown', does: 'change', dir: -1, path: 0 },
  { call: 'lchown', does: 'take', dir: -1, path: 0 },
  { call: 'fchownat', does: 'change', dir: 0, path: 1, flags: 4 },
  { call: 'utime', does: 'change', dir: -1, path: 0 },
  { call: 'utimes', does: 'change', dir: -1, path: 0 },
  { call: 'futimesat', does: 'change', dir: 0, path: 1 },
  { call: 'utimensat', does: 'change', dir: 0, path: 1, flags: 3 },
  { call: 'setxattr', does: 'change', dir: -1, path: 0 },
  { call: 'lsetxattr', does: 'take', dir: -1, path: 0 },
  { call: 'removexattr', does: 'change', dir: -1, path: 0 },
  { call: 'lremovexattr', does: 'take', dir: -1, path: 0 },
]

export const watchRules: readonly Rule[] = watched.map(({ call, does, flags }) => ({
  call,
  when:
    does !== 'open' || flags === undefined
      ? { kind: 'always' }
      : { kind: 'if-any-bit', argument: flags, bits: writing },
  answer: 'notify',
  stops: 'nothing: a write that a read-only boundary denies is seen, and the mount denies it',
}))

/** The same for who listens, call by call: number, what it does, and where its arguments are. */
export const watchTable = (architecture: Architecture): string =>
  watched
    .flatMap(({ call, does, dir, path, flags = -1 }) => {
      const number = syscallNumber(call, architecture)
      return number === null ? [] : [[number, does, dir, path, flags].join(':')]
    })
    .join(',')
