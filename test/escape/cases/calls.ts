import { arch } from 'node:os'
import { readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../../src/engine/base/process.ts'
import {
  syscallNumber,
  type Architecture,
  type Syscall,
} from '../../../src/engine/sandbox/seccomp/syscalls.ts'
import type { EscapeCase } from '../case.ts'
import { stays } from '../staying.ts'
import type { World } from '../world.ts'

const architecture = arch() as Architecture
const guard = 'seccomp refuses the call'
const refused = 1 // EPERM

/** A call with arguments that the kernel refuses by another number than the filter does, and that do nothing. */
type Call = readonly [name: Syscall, ...args: (number | string)[]]

/** For Perl: each call's name and what it answered, a line each. */
const asking = (calls: readonly Call[]) =>
  calls
    .map(([name, ...args]) => {
      const words = [syscallNumber(name, architecture), ...args].map((word) => `0 + ${word}`).join(', ')
      return `$! = 0; $r = syscall(${words}); print "${name} ", $r == -1 ? 0 + $! : 0, "\\n";`
    })
    .join(' ')

const otherwise = (answers: string) =>
  answers
    .trim()
    .split('\n')
    .flatMap((line) => (line.endsWith(` ${refused}`) ? [] : [line.split(' ')[0] ?? '']))

function callsCase(id: string, attack: string, all: readonly Call[], more: Partial<EscapeCase>): EscapeCase {
  const calls = all.filter(([name]) => syscallNumber(name, architecture) !== null)
  return {
    id,
    group: 'Kernel',
    attack,
    guard,
    claim: 'blocked',
    stage: async (world) => {
      const host = (await run('setsid', ['-w', 'perl', '-e', asking(calls)])).stdout.toString()
      // Of what is refused on this host too (by a container's own filter), nothing can be shown.
      const shown = otherwise(host)
      const answers = async () => (await world.loot()).trim().split('\n')
      return {
        probe: `setsid -w perl -e '${asking(calls)}' >~/loot`,
        tried: async () => shown.length > calls.length / 2 && (await answers()).length === calls.length,
        escaped: async () => otherwise(await world.loot()).some((name) => shown.includes(name)),
      }
    },
    ...more,
  }
}

const nowhere = 1 // an address at which there is nothing

const holds = async (world: World, path: string) => {
  const links = await world.descriptors()
  const real = await readlink(path).catch(() => path)
  return links.includes(real)
}

export const calls: readonly EscapeCase[] = [
  {
    id: 'stolen-descriptor',
    group: 'Kernel',
    attack: 'takes an open file out of another process by pidfd_getfd',
    guard,
    claim: 'blocked',
    stage: async (world) => {
      const held = join(world.ground.root, 'held')
      return {
        // The victim does not carry the mark, so the oracle sees whose descriptor it is.
        probe: `perl -e 'if (!($victim = fork)) { $^F = 99; open(F, ">", "held"); open(R, ">", "ready"); exec "sleep", "60" } select(undef, undef, undef, 0.02) until -e "ready" or $n++ > 500; select(undef, undef, undef, 0.1); $pidfd = syscall(434, $victim, 0); for (3 .. 9) { syscall(${syscallNumber('pidfd_getfd', architecture)}, $pidfd, $_, 0) } ${stays}' ${world.mark} & settled $!`,
        live: true,
        tried: async () => (await world.processes()).length > 0,
        escaped: () => holds(world, held),
      }
    },
  },
  callsCase(
    'calls-on-others',
    "asks the kernel for what is another process's, for files by handle, for its rings and for keys, call by call",
    [
      ['kcmp', '$$', '$$', 99, 0, 0],
      ['pidfd_getfd', -1, 0, 0],
      ['process_madvise', -1, 0, 0, 0, 0],
      ['process_vm_readv', '$$', 0, 0, 0, 0, 99],
      ['process_vm_writev', '$$', 0, 0, 0, 0, 99],
      ['name_to_handle_at', -1, nowhere, nowhere, nowhere, 0],
      ['fanotify_mark', -1, 0, 0, 0, 0],
      ['io_uring_enter', -1, 0, 0, 0, 0, 0],
      ['io_uring_register', -1, 0, 0, 0],
      ['request_key', nowhere, nowhere, nowhere, 0],
      ['keyctl', 999],
    ],
    {},
  ),
  callsCase(
    'calls-of-root',
    'asks the kernel to change itself, its clock, its disks, its mounts and its name, call by call',
    [
      ['kexec_load', 0, 0, 0, -1],
      ['kexec_file_load', -1, -1, 0, 0, -1],
      ['init_module', nowhere, 0, nowhere],
      ['finit_module', -1, nowhere, 99],
      ['delete_module', nowhere, 0],
      ['reboot', 1, 1, 1, 1],
      ['swapon', nowhere, 0],
      ['swapoff', nowhere],
      ['acct', nowhere],
      ['quotactl', -1, 0, 0, 0],
      ['quotactl_fd', -1, -1, 0, 0],
      ['settimeofday', nowhere, nowhere],
      ['clock_settime', 99, nowhere],
      ['adjtimex', nowhere],
      ['clock_adjtime', 99, nowhere],
      ['iopl', 99],
      ['ioperm', -1, 1, 1],
      ['modify_ldt', 99, nowhere, 1],
      ['syslog', 99, 0, 0],
      // In a session of its own there is no terminal to hang up.
      ['vhangup'],
      ['sethostname', nowhere, -1],
      ['setdomainname', nowhere, -1],
      ['open_by_handle_at', -1, nowhere, 0],
      ['lookup_dcookie', 0, nowhere, 0],
      ['mount', nowhere, nowhere, nowhere, 0, 0],
      ['umount2', nowhere, 0],
      ['pivot_root', nowhere, nowhere],
      ['chroot', nowhere],
      ['move_mount', -1, nowhere, -1, nowhere, -1],
      ['open_tree_attr', -1, nowhere, -1, 0, 0],
      ['fsconfig', -1, 99, 0, 0, 0],
      ['fsmount', -1, 99, 0],
      ['fspick', -1, nowhere, -1],
      ['mount_setattr', -1, nowhere, 0, 0, 99],
    ],
    { only: 'root', guard: 'seccomp refuses the call, and there are no capabilities for it' },
  ),
  {
    id: 'setns-own',
    group: 'Kernel',
    attack:
      'enters the user namespace of another program of the same user (rootless Podman), to be root there',
    guard: 'there is none to be seen, and seccomp refuses the call',
    claim: 'blocked',
    stage: async (world) => {
      const other = await world.bystander({}, ['unshare', '-U'])
      const place = `/proc/${other.pid}/ns/user`
      const ours = await readlink('/proc/self/ns/user')
      for (let round = 0; round < 200 && (await readlink(place)) === ours; round++)
        await new Promise((resolve) => setTimeout(resolve, 10))
      const theirs = await readlink(place)
      return {
        probe: `perl -e 'open(N, "<", "${place}"); syscall(${syscallNumber('setns', architecture)}, fileno(N), 0); ${stays}' ${world.mark} & settled $!`,
        live: true,
        tried: async () => (await world.processes()).length > 0 && theirs !== ours,
        escaped: async () => {
          const own = (await world.processes()).map((pid) => readlink(`/proc/${pid}/ns/user`).catch(() => ''))
          return (await Promise.all(own)).includes(theirs)
        },
      }
    },
  },
]
