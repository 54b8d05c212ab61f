import { describe, expect, test } from 'vitest'
import { buildFilter } from './filter.ts'
import { rules } from './rules.ts'
import { auditArchitecture, syscallNumber, type Architecture } from './syscalls.ts'

type Call = { readonly arch: number; readonly number: number; readonly args?: readonly bigint[] }

/** Classic BPF as the kernel runs it, as far as our filters use it. */
function runFilter(program: Buffer, { arch, number, args = [] }: Call): string {
  const data = Buffer.alloc(64)
  data.writeUInt32LE(number >>> 0, 0)
  data.writeUInt32LE(arch >>> 0, 4)
  args.forEach((value, index) => data.writeBigUInt64LE(BigInt.asUintN(64, value), 16 + 8 * index))
  let accumulator = 0
  for (let at = 0; at < program.length / 8; at++) {
    const code = program.readUInt16LE(at * 8)
    const [jumpTrue, jumpFalse] = [program.readUInt8(at * 8 + 2), program.readUInt8(at * 8 + 3)]
    const k = program.readUInt32LE(at * 8 + 4)
    const jump = (isTrue: boolean) => (at += isTrue ? jumpTrue : jumpFalse)
    if (code === 0x20) accumulator = data.readUInt32LE(k)
    else if (code === 0x15) jump(accumulator === k)
    else if (code === 0x35) jump(accumulator >= k)
    else if (code === 0x45) jump((accumulator & k) !== 0)
    else if (code === 0x06) return answerName(k)
    else throw new Error(`instruction ${code.toString(16)}`)
  }
  throw new Error('ran off the end')
}

function answerName(value: number): string {
  if (value === 0x7fff0000) return 'allow'
  if (value === 0x80000000) return 'kill'
  const errno = { 1: 'EPERM', 38: 'ENOSYS', 97: 'EAFNOSUPPORT' }[value & 0xffff]
  if (value >>> 16 === 5 && errno !== undefined) return errno
  throw new Error(`answer ${value.toString(16)}`)
}

// Told here once more, and not taken from the rules: of most of these the kernel refuses an agent the call for another
// reason too, and no attack would miss a rule that is gone.
const always = {
  EPERM:
    'mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick mount_setattr setns ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp io_uring_setup io_uring_enter io_uring_register userfaultfd bpf perf_event_open keyctl add_key request_key kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct quotactl quotactl_fd settimeofday clock_settime adjtimex clock_adjtime iopl ioperm modify_ldt syslog vhangup sethostname setdomainname open_by_handle_at name_to_handle_at fanotify_init fanotify_mark lookup_dcookie',
  ENOSYS: 'openat2 clone3',
} as const
const notOnArm64 = new Set(['iopl', 'ioperm', 'modify_ldt'])

describe.each(['x64', 'arm64'] as const satisfies readonly Architecture[])(
  'the filter for %s',
  (architecture) => {
    const program = buildFilter(rules, architecture)
    const arch = auditArchitecture[architecture]
    const call = (name: Parameters<typeof syscallNumber>[0], ...args: readonly bigint[]) =>
      runFilter(program, { arch, number: syscallNumber(name, architecture) ?? -1, args })

    test('refuses, whatever their arguments, exactly the calls that are named here', () => {
      const answered = Object.entries(always).flatMap(([answer, names]) =>
        names.split(' ').map((name) => [name, answer] as const),
      )
      const here = answered.filter(([name]) => architecture === 'x64' || !notOnArm64.has(name))
      for (const [name, answer] of here)
        expect([name, call(name as Parameters<typeof call>[0])]).toEqual([name, answer])
      const ruled = rules.filter(({ when }) => when.kind === 'always').map((rule) => rule.call)
      expect([...ruled].sort()).toEqual(answered.map(([name]) => name).sort())
    })

    test('kills calls of any other architecture', () => {
      for (const foreign of [0x40000003, 0xc000003e, 0xc00000b7, 0x40000028, 0].filter(
        (word) => word !== arch,
      )) {
        expect(runFilter(program, { arch: foreign, number: 0 })).toBe('kill')
      }
    })

    test('answers every rule as it says, whatever the arguments, and each call of ours is known to it', () => {
      for (const rule of rules) {
        if (syscallNumber(rule.call, architecture) === null) continue
        if (rule.when.kind !== 'always') continue
        for (const args of [[], [0n], [0xffff_ffff_ffff_ffffn]])
          expect(call(rule.call, ...args)).toBe(rule.answer)
      }
    })

    test('lets everything else pass', () => {
      const ruled = new Set(rules.map((rule) => syscallNumber(rule.call, architecture)))
      for (let number = 0; number < 470; number++) {
        if (!ruled.has(number)) expect(runFilter(program, { arch, number })).toBe('allow')
      }
    })

    test('refuses every namespace to clone and unshare, alone or among other flags, and no thread', () => {
      const flags = [0x20000n, 0x2000000n, 0x4000000n, 0x8000000n, 0x10000000n, 0x20000000n, 0x40000000n]
      for (const flag of flags) {
        expect(call('clone', flag | 17n)).toBe('EPERM')
        expect(call('unshare', flag | 0x200n)).toBe('EPERM')
      }
      expect(call('unshare', 0x80n)).toBe('EPERM')
      // fork, vfork and pthread_create
      for (const flag of [17n, 0x4111n, 0x3d0f00n]) expect(call('clone', flag)).toBe('allow')
      expect(call('unshare', 0x400n)).toBe('allow')
    })

    test('refuses to type into a terminal also where the upper half of the argument is garbage', () => {
      expect(call('ioctl', 0n, 0x5412n)).toBe('EPERM')
      expect(call('ioctl', 0n, 0x541cn)).toBe('EPERM')
      expect(call('ioctl', 0n, 0xdead_beef_0000_5412n)).toBe('EPERM')
      expect(call('ioctl', 0n, 0x5413n)).toBe('allow')
    })

    test('refuses to have a terminal read in another way (TIOCSETD), and lets the way be asked for', () => {
      expect(call('ioctl', 0n, 0x5423n)).toBe('EPERM')
      expect(call('ioctl', 0n, 0x5424n)).toBe('allow')
    })

    test('refuses to plant a set-uid program by chmod, whatever garbage is above the mode', () => {
      const places = { chmod: 1, fchmod: 1, fchmodat: 2, fchmodat2: 2 } as const
      for (const [name, place] of Object.entries(places) as [keyof typeof places, number][]) {
        if (syscallNumber(name, architecture) === null) continue
        const withMode = (mode: bigint) => call(name, ...Array.from({ length: place }, () => -1n), mode)
        for (const mode of [0o4755n, 0o6755n, 0o104000n, 0xdead_beef_0000_0800n])
          expect(withMode(mode), name).toBe('EPERM')
        // Folders of a checkout shared by a group, and /tmp.
        for (const mode of [0n, 0o644n, 0o777n, 0o2775n, 0o1777n]) expect(withMode(mode), name).toBe('allow')
      }
    })

    test('refuses to create a file that is set-uid or set-gid from the start', () => {
      const places = { open: 1, openat: 2 } as const
      for (const [name, place] of Object.entries(places) as [keyof typeof places, number][]) {
        if (syscallNumber(name, architecture) === null) continue
        const before = Array.from({ length: place }, () => -1n)
        for (const flags of [0o100n, 0o101n, 0o301n, 0o20200002n]) {
          for (const mode of [0o4755n, 0o2755n, 0o6000n])
            expect(call(name, ...before, flags, mode), name).toBe('EPERM')
          for (const mode of [0n, 0o644n, 0o1777n])
            expect(call(name, ...before, flags, mode), name).toBe('allow')
        }
        // Nothing is created, so the mode is whatever was in the register.
        for (const flags of [0n, 1n, 2n, 0o200000n, 0o2000000n])
          expect(call(name, ...before, flags, -1n), name).toBe('allow')
      }
      const makers = { creat: 1, mknod: 1, mknodat: 2 } as const
      for (const [name, place] of Object.entries(makers) as [keyof typeof makers, number][]) {
        if (syscallNumber(name, architecture) === null) continue
        const before = Array.from({ length: place }, () => -1n)
        for (const mode of [0o104755n, 0o2755n]) expect(call(name, ...before, mode), name).toBe('EPERM')
        for (const mode of [0o10644n, 0o100755n]) expect(call(name, ...before, mode), name).toBe('allow')
      }
    })

    test('makes unix, internet and netlink sockets only', () => {
      for (let family = 0n; family < 50n; family++) {
        const answer = [1n, 2n, 10n, 16n].includes(family) ? 'allow' : 'EAFNOSUPPORT'
        for (const name of ['socket', 'socketpair'] as const) expect(call(name, family)).toBe(answer)
      }
    })
  },
)

test('x32 calls are killed', () => {
  const program = buildFilter(rules, 'x64')
  expect(runFilter(program, { arch: auditArchitecture.x64, number: 0x40000000 | 165 })).toBe('kill')
})
