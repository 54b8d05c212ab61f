import { run } from '../../base/process.ts'
import type { SandboxPlan } from '../plan/plan.ts'
import { syscallNumber } from '../seccomp/syscalls.ts'

/**
 * Takes the descriptor that a program inside has for its stderr, and writes to it as the program could: what was opened for
 * reading takes nothing. Of sockets only those that were made as a pair, both without a name: behind any other somebody may
 * listen who goes by who writes. Where a write waits, it ends.
 *
 * Only a child goes where the sandbox's numbers count, to find the process by its own, and holds nothing else: what is
 * there the agent can stop, and a borrowed file that stays open would keep its root writable. (escape: narrow-hidden-descriptor)
 *
 * Arguments: setns holder process device inode line
 */
const script = String.raw`
my ($setns, $holder, $pid, $device, $inode, $line) = @ARGV;
$^F = 255;
open my $numbers, '<', "/proc/$holder/ns/pid" or exit 1;
exit 1 if syscall($setns + 0, fileno $numbers, 0x20000000) < 0;
pipe my $hear, my $say;
pipe my $wait, my $hold;
my $child = fork // exit 1;
if (!$child) {
  close $hold;
  syswrite $say, pack 'l', syscall(434, $pid + 0, 0);
  sysread $wait, my $end, 1;
  exit 0;
}
my $leave = sub { kill 9, $child; exit $_[0] };
$SIG{ALRM} = sub { $leave->(2) };
alarm 2;
close $say;
$leave->(3) unless sysread($hear, my $number, 4) == 4 && unpack('l', $number) >= 0;
my $process = syscall(438, syscall(434, $child, 0), unpack('l', $number), 0);
$leave->(4) if $process < 0;
my $theirs = syscall(438, $process, 2, 0);
$leave->(5) if $theirs < 0;
my @found = stat "/proc/self/fd/$theirs";
$leave->(6) unless @found && $found[0] == $device && $found[1] == $inode;
open my $stderr, '+<&=', $theirs or $leave->(7);
if (-S _) {
  for my $name (getsockname $stderr, getpeername $stderr) { $leave->(8) unless length $name == 2 && unpack('S', $name) == 1 }
  $leave->(9) unless unpack('i', getsockopt $stderr, 1, 3) == 1;
  send $stderr, $line, 0x4040;
} else { syswrite $stderr, $line }
$leave->(0);
`

/** What tells one open file from another. */
export type Identity = { readonly dev: number; readonly ino: number }

/** Writes to a program's stderr with the holder's rights over what is inside, where this host can. */
export type Borrow = (pid: number, stderr: Identity, line: string) => Promise<void>

export function borrowFrom({ tools, seccomp }: SandboxPlan, holder: number): Borrow | null {
  const { nsenter, perl } = tools
  if (nsenter === null || perl === null || seccomp === null) return null
  // Not the agent's view: there a program would load what the agent put into it. (escape: relay-preload)
  const inside = [`--user=/proc/${holder}/ns/user`, '--preserve-credentials', '--']
  const setns = syscallNumber('setns', seccomp.architecture)
  return async (pid, { dev, ino }, line) => {
    const given = [setns, holder, pid, dev, ino, line].map(String)
    await run(nsenter, [...inside, perl, '-e', script, ...given], { timeoutMs: 4000 }).catch(() => {})
  }
}
