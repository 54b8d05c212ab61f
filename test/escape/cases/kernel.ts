import { readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { access } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { arch } from 'node:os'
import {
  syscallNumber,
  type Architecture,
  type Syscall,
} from '../../../src/engine/sandbox/seccomp/syscalls.ts'
import { run } from '../../../src/engine/base/process.ts'
import type { EscapeCase } from '../case.ts'
import { hasComplained, isThere, staying, stays } from '../staying.ts'
import { setUid } from './setUid.ts'
import type { World } from '../world.ts'

const architecture = arch() as Architecture
const number = (name: Syscall) => syscallNumber(name, architecture) ?? -1
const filter = 'seccomp refuses the call'

/** Perl speaks to the kernel directly; the process stays, so that the oracle can look at it from outside. */
const perl = staying

/** Into the user's own keyring, and out of it again by itself: there is only so much room. */
const addKey = (name: string) =>
  `$t = "user"; $d = "${name}"; $p = "x"; $k = syscall(${number('add_key')}, $t, $d, $p, 1, -4); ` +
  `syscall(${number('keyctl')}, 15, $k, 60)`

/** The call gives a descriptor of a kind that nothing else gives. */
function descriptorCall(
  id: string,
  attack: string,
  code: string,
  kind: string,
  only?: EscapeCase['only'],
): EscapeCase {
  return {
    id,
    group: 'Kernel',
    attack,
    guard: filter,
    claim: 'blocked',
    ...(only === undefined ? {} : { only }),
    stage: async (world) => ({
      probe: perl(world, code),
      live: true,
      escaped: async () => (await world.descriptors()).some((link) => link.includes(kind)),
      tried: () => isThere(world),
    }),
  }
}

async function userNamespaceDiffersFromParents(world: World): Promise<boolean> {
  for (const pid of await world.processes()) {
    const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
    const parent = /^PPid:\s*(\d+)/m.exec(status)?.[1] ?? '0'
    const [own, parents] = await Promise.all(
      [pid, parent].map((who) => readlink(`/proc/${who}/ns/user`).catch(() => null)),
    )
    const name = /^Name:\s*(\S+)/m.exec(status)?.[1]
    if (name === 'perl' && own !== null && parents !== null && own !== parents) return true
  }
  return false
}

function nestedNamespace(
  id: string,
  attack: string,
  script: (world: World) => string,
  guard: string,
): EscapeCase {
  return {
    id,
    group: 'Kernel',
    attack,
    guard,
    claim: 'blocked',
    stage: async (world) => ({
      probe: script(world),
      live: true,
      escaped: () => userNamespaceDiffersFromParents(world),
      tried: () => isThereOrRefused(world),
    }),
  }
}

const mountTables = async (world: World) =>
  Promise.all(
    (await world.processes()).map((pid) => readFile(`/proc/${pid}/mountinfo`, 'utf8').catch(() => '')),
  )

/** What was to stand in a namespace of its own does, or a program on the way there was refused it. */
const isThereOrRefused = async (world: World) =>
  (await isThere(world)) ||
  (await hasComplained(world, 'unshare: ')) ||
  (await hasComplained(world, 'mount: '))

const both = 'bubblewrap refuses nested user namespaces, and seccomp the flags'

// unshare(CLONE_NEWUSER) and clone with the same flag; the child stays.
const cloneFlags = 0x10000000 | 17

export const kernel: readonly EscapeCase[] = [
  nestedNamespace(
    'userns-unshare',
    'makes a user namespace to be root in',
    (world) => `unshare -U perl -e '${stays}' ${world.mark} & settled $!`,
    both,
  ),
  nestedNamespace(
    'userns-clone',
    'makes one by clone',
    (world) => perl(world, `syscall(${number('clone')}, ${cloneFlags}, 0, 0, 0, 0)`),
    both,
  ),
  nestedNamespace(
    'userns-clone3',
    'makes one by clone3, whose flags no filter can read',
    (world) =>
      perl(
        world,
        `$a = pack("Q11", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0); syscall(${number('clone3')}, $a, 88)`,
      ),
    'seccomp answers ENOSYS to clone3 altogether',
  ),
  {
    id: 'mount-in-userns',
    group: 'Kernel',
    attack: 'mounts in a nested user namespace, to uncover or replace parts of the view',
    guard: both,
    claim: 'blocked',
    stage: async (world) => ({
      probe: `unshare -Urm sh -c 'mount -t tmpfs ${world.mark} /dev/shm && exec perl -e "$0" ${world.mark}' '${stays}' & settled $!`,
      live: true,
      escaped: async () => {
        const tables = await mountTables(world)
        return tables.some((table) => table.includes(` tmpfs ${world.mark} `))
      },
      tried: () => isThereOrRefused(world),
    }),
  },
  {
    id: 'pivot-in-userns',
    group: 'Kernel',
    attack: 'turns the view around in a nested user namespace: mount, then pivot_root',
    guard: both,
    claim: 'blocked',
    stage: async (world) => ({
      probe: `unshare -Urm sh -c 'mount -t tmpfs ${world.mark} /dev/shm && mkdir /dev/shm/old && cd /dev/shm && HOME=/old$HOME exec perl -e "$0" ${world.mark}' '$new = "."; $old = "old"; syscall(${number('pivot_root')}, $new, $old); ${stays}' & settled $!`,
      live: true,
      escaped: async () => {
        const tables = await mountTables(world)
        return tables.some((table) =>
          new RegExp(`^\\d+ \\d+ \\S+ / / .* tmpfs ${world.mark} `, 'm').test(table),
        )
      },
      tried: () => isThereOrRefused(world),
    }),
  },
  {
    id: 'setns',
    group: 'Kernel',
    attack: 'enters a namespace of another process of the host',
    guard: 'there is none to be seen, and seccomp refuses the call',
    claim: 'blocked',
    only: 'root',
    stage: async (world) => {
      const other = await world.bystander({}, ['unshare', '-u'])
      const place = `/proc/${other.pid}/ns/uts`
      return {
        probe: staying(world, `open(N, "<", "${place}"); syscall(${number('setns')}, fileno(N), 0)`),
        live: true,
        tried: () => isThere(world),
        escaped: async () => {
          const links = [place, ...(await world.processes()).map((pid) => `/proc/${pid}/ns/uts`)]
          const [theirs, ...own] = await Promise.all(links.map((path) => readlink(path).catch(() => null)))
          return theirs !== null && own.includes(theirs ?? '')
        },
      }
    },
  },
  {
    id: 'unmount-mask',
    group: 'Kernel',
    attack: 'unmounts what covers a secret',
    guard: 'no capabilities, and seccomp refuses umount2',
    claim: 'blocked',
    only: 'root',
    stage: async (world) => ({
      // On the host in a mount namespace of its own: what it unmounts there is the user's.
      probe: `in=; unshare -m true 2>/dev/null && in='unshare -m'; $in sh -c 'umount -l /etc/shadow; umount -l /tmp; cat /etc/shadow >~/loot'`,
      tried: () => hasComplained(world, 'umount: '),
      escaped: async () => (await world.loot()).includes('root:'),
    }),
  },
  descriptorCall(
    'mount-api',
    'prepares a mount with the new calls',
    `$t = "tmpfs"; syscall(${number('fsopen')}, $t, 0); $r = "/"; syscall(${number('open_tree')}, -100, $r, 1)`,
    'anon_inode:[fscontext]',
    'root',
  ),
  descriptorCall(
    'io-uring',
    'has the kernel make calls past the filter',
    `$p = "\\0" x 120; syscall(${number('io_uring_setup')}, 8, $p)`,
    'anon_inode:[io_uring]',
  ),
  descriptorCall(
    'userfaultfd',
    'stalls the kernel in a page fault',
    `syscall(${number('userfaultfd')}, 1)`,
    'anon_inode:[userfaultfd]',
  ),
  descriptorCall(
    'bpf',
    'loads a program into the kernel',
    `$a = pack("L4", 2, 4, 4, 1) . ("\\0" x 112); syscall(${number('bpf')}, 0, $a, 128)`,
    'anon_inode:bpf-map',
    'root',
  ),
  descriptorCall(
    'perf-event',
    'watches the kernel and other processes',
    `$a = pack("LLQQQQQ", 1, 112, 0, 0, 0, 0, 0x60) . ("\\0" x 64); syscall(${number('perf_event_open')}, $a, 0, -1, -1, 0)`,
    'anon_inode:[perf_event]',
  ),
  descriptorCall(
    'fanotify',
    'watches files of the host by handle',
    `syscall(${number('fanotify_init')}, 0x200, 0)`,
    'anon_inode:[fanotify]',
  ),
  {
    id: 'keyring',
    group: 'Kernel',
    attack: "puts a key into the user's kernel keyring, or takes one",
    guard: filter,
    claim: 'blocked',
    stage: async (world) => ({
      probe: perl(world, addKey(world.mark)),
      live: true,
      escaped: async () => (await readFile('/proc/keys', 'utf8')).includes(world.mark),
      tried: () => isThere(world),
    }),
  },
  {
    id: 'keyring-names',
    group: 'Kernel',
    attack: "reads what the keys in the user's kernel keyring are called",
    guard: '/proc/keys is covered: no namespace separates keys',
    claim: 'blocked',
    stage: async (world) => {
      await run('perl', ['-e', addKey(world.mark)])
      return {
        probe: 'cat /proc/keys >~/loot; perl -e \'open(K, "<", "/proc/keys"); print <K>\' >>~/loot',
        escaped: async () => (await world.loot()).includes(world.mark),
        // It is still there to be read, from outside.
        tried: async () => (await readFile('/proc/keys', 'utf8')).includes(world.mark),
      }
    },
  },
  {
    id: 'ptrace',
    group: 'Kernel',
    attack: 'takes over another process by ptrace',
    guard: filter,
    claim: 'blocked',
    stage: async (world) => ({
      probe: `sleep 60 & victim=$!; ${perl(world, `syscall(${number('ptrace')}, 16, $ARGV[1] + 0, 0, 0)`).replace(world.mark, `${world.mark} $victim`)}`,
      live: true,
      escaped: async () => {
        const tracers = new Set(await world.processes())
        const all = await findTraced()
        return all.some((tracer) => tracers.has(tracer))
      },
      tried: () => isThere(world),
    }),
  },
  {
    id: 'process-vm-write',
    group: 'Kernel',
    attack: "writes into another process's memory",
    guard: filter,
    claim: 'blocked',
    stage: async (world) => ({
      probe: `perl -e '$s = "before"; $a = unpack("Q", pack("p", $s)); $parent = $$; if (!fork) { $n = "after!"; $l = pack("QQ", unpack("Q", pack("p", $n)), 6); $r = pack("QQ", $a, 6); syscall(${number('process_vm_writev')}, $parent, $l, 1, $r, 1, 0); exit } wait; open(F, ">", "$ENV{HOME}/loot"); print F $s; close F'`,
      escaped: async () => (await world.loot()) === 'after!',
      tried: async () => (await world.loot()) !== '',
    }),
  },
  {
    id: 'terminal-injection',
    group: 'Kernel',
    attack: 'types into the terminal it was started from (TIOCSTI)',
    guard: 'a terminal of its own, and seccomp refuses the call',
    claim: 'blocked',
    stage: async (world) => ({
      probe: `cat >inject.pl <<'END'
ioctl(STDIN, 0x5412, $_) for split //, "typed\\n";
my $ready = ""; vec($ready, 0, 1) = 1;
my $line = select($ready, undef, undef, 1) ? <STDIN> : "";
open(F, ">", "$ENV{HOME}/loot");
print F $line;
open(T, ">", "$ENV{HOME}/tried");
END
settled $$ | script -qc 'perl inject.pl' /dev/null`,
      escaped: async () => (await world.loot()).includes('typed'),
      tried: () => existsSync(join(world.ground.home, 'tried')),
    }),
  },
  {
    id: 'kernel-settings',
    group: 'Kernel',
    attack: 'changes a setting of the running kernel',
    guard: '/proc/sys is read-only and there are no capabilities',
    claim: 'blocked',
    only: 'root',
    stage: async (world) => {
      const file = '/proc/sys/kernel/printk_ratelimit_burst'
      const before = (await readFile(file, 'utf8')).trim()
      const { writeFile } = await import('node:fs/promises')
      world.defer(() => writeFile(file, before))
      return {
        probe: `echo 11 >${file}`,
        escaped: async () => (await readFile(file, 'utf8')).trim() !== before,
        tried: async () => (await hasComplained(world)) || (await readFile(file, 'utf8')).trim() !== before,
      }
    },
  },
  {
    id: 'chmod-device',
    group: 'Kernel',
    attack: "changes owner, mode or times of a device node that is the host's own",
    guard: 'device nodes are mounted read-only where the agent would own them',
    claim: 'blocked',
    only: 'root',
    stage: async (world) => {
      const { stat, utimes } = await import('node:fs/promises')
      const { atime, mtime } = await stat('/dev/full')
      world.defer(() => utimes('/dev/full', atime, mtime))
      return {
        probe: 'touch -d @86400 /dev/full',
        escaped: async () => (await stat('/dev/full')).mtimeMs === 86_400_000,
        tried: async () =>
          (await hasComplained(world, 'touch: ')) || (await stat('/dev/full')).mtimeMs === 86_400_000,
      }
    },
  },
  ...setUid,
  ...(architecture === 'x64' ? [foreignCalls()] : []),
]

/** 32-bit calls have numbers of their own: 39 is mkdir there and getpid here. */
function foreignCalls(): EscapeCase {
  return {
    id: 'int-0x80',
    group: 'Kernel',
    attack: 'makes 32-bit calls, whose numbers mean other calls to the filter',
    guard: 'the filter checks the architecture first and kills',
    claim: 'blocked',
    stage: async ({ ground }) => ({
      probe: `cat >foreign.c <<'END'
static char name[] = "made-by-int80";
int main(void) {
  long answer;
  extern int creat(const char *, unsigned);
  creat("tried", 0644);
  char *low = (char *)0x10000000;
  extern void *mmap(void *, unsigned long, int, int, int, long);
  mmap(low, 4096, 3, 0x32, -1, 0);
  for (int i = 0; i < (int)sizeof name; i++) low[i] = name[i];
  __asm__ volatile("int $0x80" : "=a"(answer) : "a"(39), "b"(low), "c"(0755) : "memory");
  return answer != 0;
}
END
gcc -o foreign foreign.c && (./foreign)`,
      // By the program itself, the moment before: that it was built and runs.
      tried: () => [ground.root, ground.upper].some((folder) => existsSync(join(folder, 'tried'))),
      escaped: async () => {
        const made = [join(ground.root, 'made-by-int80'), join(ground.upper, 'made-by-int80')]
        const found = await Promise.all(
          made.map((path) =>
            access(path).then(
              () => true,
              () => false,
            ),
          ),
        )
        return found.includes(true)
      },
    }),
  }
}

async function findTraced(): Promise<readonly number[]> {
  const { readdir } = await import('node:fs/promises')
  const names = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const tracers = await Promise.all(
    names.map(async (name) => {
      const status = await readFile(`/proc/${name}/status`, 'utf8').catch(() => '')
      return Number(/^TracerPid:\s*(\d+)/m.exec(status)?.[1] ?? 0)
    }),
  )
  return tracers.filter((tracer) => tracer !== 0)
}
