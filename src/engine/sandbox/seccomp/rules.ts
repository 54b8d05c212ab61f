import type { Syscall } from './syscalls.ts'

/** `notify`: who listens is told, and the kernel goes on as without the rule. */
export type Answer = 'EPERM' | 'ENOSYS' | 'EAFNOSUPPORT' | 'notify'

export type BitTest = { readonly argument: number; readonly bits: number }

/**
 * One rule of a filter. `always` refuses the call; `if-any-bit` refuses when an argument has one of the
 * bits; `if-any-bit-of-each` when each of the named arguments has one of its bits; `if-equal` when it is one
 * of the values; `unless-equal` when it is none of them.
 */
export type Rule = {
  readonly call: Syscall
  readonly when:
    | { readonly kind: 'always' }
    | ({ readonly kind: 'if-any-bit' } & BitTest)
    | { readonly kind: 'if-any-bit-of-each'; readonly tests: readonly BitTest[] }
    | { readonly kind: 'if-equal'; readonly argument: number; readonly values: readonly number[] }
    | { readonly kind: 'unless-equal'; readonly argument: number; readonly values: readonly number[] }
  readonly answer: Answer
  /** The attack it stops. */
  readonly stops: string
}

const refuse = (stops: string, ...calls: readonly Syscall[]): readonly Rule[] =>
  calls.map((call) => ({ call, when: { kind: 'always' }, answer: 'EPERM', stops }))

// CLONE_NEWTIME | NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET
const newNamespaceBits =
  0x80 | 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
// For clone the lowest byte is the exit signal, so CLONE_NEWTIME (0x80) cannot be asked for there.
const newNamespaceBitsOfClone = newNamespaceBits & ~0xff

// The first two type into a terminal, the last has it read by kernel code that hardly anybody uses.
const terminalRequests = [0x5412 /* TIOCSTI */, 0x541c /* TIOCLINUX */, 0x5423 /* TIOCSETD */]
const socketFamilies = [1 /* AF_UNIX */, 2 /* AF_INET */, 10 /* AF_INET6 */, 16 /* AF_NETLINK */]

const setUid = 0o4000
const setGid = 0o2000
// O_CREAT | __O_TMPFILE: without one of them the kernel ignores the mode, and callers leave anything there.
const creating = 0o100 | 0o20000000

const setUidProgram = 'planting a set-uid program on the host, where the workspace is the real files'

const chmodCalls = [
  { call: 'chmod', argument: 1 },
  { call: 'fchmod', argument: 1 },
  { call: 'fchmodat', argument: 2 },
  { call: 'fchmodat2', argument: 2 },
] as const

const refuseBits = (...tests: readonly (BitTest & { readonly call: Syscall })[]): readonly Rule[] =>
  tests.map(({ call, argument, bits }) => ({
    call,
    when: { kind: 'if-any-bit', argument, bits },
    answer: 'EPERM',
    stops: setUidProgram,
  }))

const refuseCreating = (call: Syscall, flags: number): Rule => ({
  call,
  when: {
    kind: 'if-any-bit-of-each',
    tests: [
      { argument: flags, bits: creating },
      { argument: flags + 1, bits: setUid | setGid },
    ],
  },
  answer: 'EPERM',
  stops: setUidProgram,
})

/** The rules of every level-1 sandbox, in the order of the filter. */
export const rules: readonly Rule[] = [
  // First, as programs call nothing more often than these.
  refuseCreating('openat', 2),
  refuseCreating('open', 1),
  {
    // Its mode lies in memory, where a filter cannot look. Whoever knows the call has a way without it, as
    // kernels before 5.6 had none.
    call: 'openat2',
    when: { kind: 'always' },
    answer: 'ENOSYS',
    stops: setUidProgram,
  },
  ...refuseBits(
    // What these make is never a folder.
    { call: 'creat', argument: 1, bits: setUid | setGid },
    { call: 'mknod', argument: 1, bits: setUid | setGid },
    { call: 'mknodat', argument: 2, bits: setUid | setGid },
    // Not set-gid: every chmod of a folder in a checkout shared by a group passes that bit on.
    ...chmodCalls.map((call) => ({ ...call, bits: setUid })),
  ),
  ...refuse(
    'undoing the view: unmounting a mask, binding a host path, remounting read-write',
    'mount',
    'umount2',
    'pivot_root',
    'chroot',
    'move_mount',
    'open_tree',
    'open_tree_attr',
    'fsopen',
    'fsconfig',
    'fsmount',
    'fspick',
    'mount_setattr',
  ),
  ...refuse('entering a namespace of the host through a leaked descriptor', 'setns'),
  {
    call: 'unshare',
    when: { kind: 'if-any-bit', argument: 0, bits: newNamespaceBits },
    answer: 'EPERM',
    stops: 'gaining capabilities in a nested user namespace',
  },
  {
    call: 'clone',
    when: { kind: 'if-any-bit', argument: 0, bits: newNamespaceBitsOfClone },
    answer: 'EPERM',
    stops: 'gaining capabilities in a nested user namespace',
  },
  {
    // Its flags lie in memory, where a filter cannot look. ENOSYS makes every libc fall back to clone.
    call: 'clone3',
    when: { kind: 'always' },
    answer: 'ENOSYS',
    stops: 'hiding namespace flags from the filter',
  },
  ...refuse(
    'reading or writing the memory of another process, taking its descriptors',
    'ptrace',
    'process_vm_readv',
    'process_vm_writev',
    'process_madvise',
    'pidfd_getfd',
    'kcmp',
  ),
  ...refuse(
    'calls made by the kernel on our behalf, past the filter; the largest source of kernel exploits',
    'io_uring_setup',
    'io_uring_enter',
    'io_uring_register',
  ),
  ...refuse('kernel exploit primitives', 'userfaultfd', 'bpf', 'perf_event_open'),
  ...refuse("the user's kernel keyrings, which no namespace separates", 'keyctl', 'add_key', 'request_key'),
  ...refuse(
    'changing the running kernel',
    'kexec_load',
    'kexec_file_load',
    'init_module',
    'finit_module',
    'delete_module',
    'reboot',
    'swapon',
    'swapoff',
    'acct',
    'quotactl',
    'quotactl_fd',
    'settimeofday',
    'clock_settime',
    'adjtimex',
    'clock_adjtime',
    'iopl',
    'ioperm',
    'modify_ldt',
    'syslog',
    'vhangup',
    'sethostname',
    'setdomainname',
  ),
  ...refuse(
    'opening host files by handle, past the mount tree; watching the whole filesystem',
    'open_by_handle_at',
    'name_to_handle_at',
    'fanotify_init',
    'fanotify_mark',
    'lookup_dcookie',
  ),
  {
    call: 'ioctl',
    when: { kind: 'if-equal', argument: 1, values: terminalRequests },
    answer: 'EPERM',
    stops: "typing into the user's terminal",
  },
  ...(['socket', 'socketpair'] as const).map((call): Rule => ({
    call,
    when: { kind: 'unless-equal', argument: 0, values: socketFamilies },
    answer: 'EAFNOSUPPORT',
    stops:
      'vsock (reaches the host of a VM past any network namespace), raw packets, kernel crypto and odd families',
  })),
]

/** Where CPUs are limited by affinity, the agent must not widen its own. */
export const affinityRule: Rule = {
  call: 'sched_setaffinity',
  when: { kind: 'always' },
  answer: 'EPERM',
  stops: 'undoing a CPU limit that is an affinity mask',
}

/** Where the workspace is the real files and no folder of a group's, nothing need pass the set-gid bit on. */
export const setGidRules: readonly Rule[] = refuseBits(
  ...chmodCalls.map((call) => ({ ...call, bits: setUid | setGid })),
)
